"""Training a head on a frozen backbone through the feature cache, against running the backbone in every epoch.

    python bench/frozen_training.py coco-mini/train.csv --images 3000

1. Extraction: images per second from files (decoded, resized, run, written) against the same exported network in ONNX
   Runtime on pictures that are already in memory.
2. 30 epochs of a linear probe and of layover from an empty cache, extraction and the writing of the tagger included,
   against the same training without a cache. Of the latter one epoch is run, and its epoch counted 30 times.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from drawn import table_of_scenes
from ratio import Ratio, as_table, of_rates, of_seconds
from tagloom.cores import usable_cores
from tagloom.data import load_table
from tagloom.data.reading import read_pictures
from tagloom.data.table import LabelTable
from tagloom.data.writing import write_table
from tagloom.models.network import build_network
from tagloom.recipe import load_recipe, override
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.onnx_runner import OnnxNetwork
from tagloom.training.features.extract import extract_features
from tagloom.training.log import LOG_FILE
from tagloom.training.plan import RunPlan
from tagloom.training.run import train
from tagloom.training.signals import StopRequest
from timing import best_seconds

EPOCHS = 30


def compare_extraction(table: LabelTable, work: Path, rounds: int = 5) -> Ratio:
    """Time the extraction of pooled features from files, and the bare network on pictures in memory, in turns."""
    network = build_network(
        backbone="tf_efficientnet_lite0",
        weights="bundled",
        head="gap",
        head_options={},
        classes=len(table.classes),
        size=224,
        frozen=True,
    )
    paths = [table.path(row) for row in range(len(table))]
    preprocess, cpu = Preprocess(), torch.device("cpu")

    def extract(count: int) -> None:
        with StopRequest() as stop, tempfile.TemporaryDirectory(dir=work) as folder:
            (Path(folder) / "extractors").symlink_to(work / "extractors")
            extract_features(network, paths[:count], preprocess, cache_folder=Path(folder), device=cpu, stop=stop)

    (work / "extractors").mkdir()
    extract(32)  # exports the network, which a cache does once
    bare = OnnxNetwork(next((work / "extractors").glob("*.onnx")))
    batches = [batch.pixels for batch in read_pictures(paths[:512], preprocess, threads=usable_cores())]
    pictures = sum(map(len, batches))
    best = best_seconds(
        {"files": lambda: extract(pictures), "memory": lambda: [bare(pixels) for pixels in batches]}, rounds=rounds
    )
    speed = {name: pictures / seconds for name, seconds in best.items()}
    return of_rates("features of image files", "ONNX Runtime on pictures in memory", speed["files"], speed["memory"])


def compare_training(name: str, settings: list[str], data: str, work: Path) -> Ratio:
    """Time 30 epochs from an empty cache, and without a cache."""
    recipe = override(load_recipe("quick-gap"), [*settings, f"training.epochs={EPOCHS}"])
    started = time.perf_counter()
    train(RunPlan(data, None, recipe), work / f"{name}-cached", cache_folder=work / f"cache-{name}")
    cached = time.perf_counter() - started
    bare = override(recipe, ["training.cache_features=false", "training.epochs=1", "training.standardise=false"])
    train(RunPlan(data, None, bare), work / f"{name}-bare", cache_folder=work)
    rows = [json.loads(line) for line in (work / f"{name}-bare" / LOG_FILE).read_text(encoding="utf-8").splitlines()]
    epoch = sum(row["seconds"] for row in rows if row["event"] == "epoch")
    what = f"{EPOCHS} epochs of a {name} from an empty cache, in all"
    return of_seconds(what, f"no cache: one epoch, counted {EPOCHS} times", cached, EPOCHS * epoch)


def compare(data: Path, images: int, rounds: int) -> list[Ratio]:
    """Run all comparisons on some images of a table."""
    table = load_table(data)
    rows = np.random.default_rng(0).permutation(len(table))[:images]
    table = table.select(np.sort(rows))
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        extraction = compare_extraction(table, work, rounds)
        part = str(write_table(table, work / "train.csv"))
        layover = compare_training("layover head", ["head.name=layover"], part, work)
        return [extraction, compare_training("linear probe", [], part, work), layover]


def run(brief: bool = False) -> list[Ratio]:
    """Compare on drawn scenes."""
    images = 64 if brief else 600
    with tempfile.TemporaryDirectory() as folder:
        return compare(table_of_scenes(Path(folder), images), images, rounds=1 if brief else 4)


def main() -> None:
    """Compare on a table and print the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", help="a label table", type=Path)
    arguments.add_argument("--images", type=int, default=3000)
    given = arguments.parse_args()
    print(as_table(compare(given.data, given.images, rounds=5)))


if __name__ == "__main__":
    main()
