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

from tagloom.cores import usable_cores
from tagloom.data import load_table
from tagloom.data.reading import read_pictures
from tagloom.data.table import LabelTable
from tagloom.data.writing import write_table
from tagloom.models.network import build_network
from tagloom.recipe import load_recipe, override
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.onnx_runner import OnnxNetwork
from tagloom.training.features.extract import extract_features, extractor_key
from tagloom.training.features.views import PLAIN
from tagloom.training.log import LOG_FILE
from tagloom.training.plan import RunPlan
from tagloom.training.run import train
from tagloom.training.signals import StopRequest
from timing import best_seconds

EPOCHS = 30


def compare_extraction(table: LabelTable, work: Path) -> None:
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
    bare = OnnxNetwork(work / "extractors" / f"{extractor_key(network, preprocess, PLAIN)}.onnx")
    batches = [batch.pixels for batch in read_pictures(paths[:512], preprocess, threads=usable_cores())]
    pictures = sum(map(len, batches))
    best = best_seconds(
        {"files": lambda: extract(pictures), "memory": lambda: [bare(pixels) for pixels in batches]}, rounds=5
    )
    speed = {name: pictures / seconds for name, seconds in best.items()}
    print(
        f"extraction from files {speed['files']:.0f} images/s, ONNX Runtime on pictures in memory "
        f"{speed['memory']:.0f} images/s: {100 * speed['files'] / speed['memory']:.0f} %"
    )


def compare_training(name: str, settings: list[str], data: str, work: Path) -> None:
    """Time 30 epochs from an empty cache, and without a cache."""
    recipe = override(load_recipe("quick-gap"), [*settings, f"training.epochs={EPOCHS}"])
    started = time.perf_counter()
    train(RunPlan(data, None, recipe), work / f"{name}-cached", cache_folder=work / f"cache-{name}")
    cached = time.perf_counter() - started
    bare = override(recipe, ["training.cache_features=false", "training.epochs=1", "training.standardise=false"])
    train(RunPlan(data, None, bare), work / f"{name}-bare", cache_folder=work)
    rows = [json.loads(line) for line in (work / f"{name}-bare" / LOG_FILE).read_text(encoding="utf-8").splitlines()]
    epoch = sum(row["seconds"] for row in rows if row["event"] == "epoch")
    print(
        f"{name}: {EPOCHS} epochs through the cache {cached:.0f} s in all; one epoch without it {epoch:.0f} s, so "
        f"{EPOCHS} epochs {EPOCHS * epoch:.0f} s: {EPOCHS * epoch / cached:.1f} times as fast"
    )


def main() -> None:
    """Run both comparisons."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", help="a label table")
    arguments.add_argument("--images", type=int, default=3000)
    given = arguments.parse_args()
    table = load_table(given.data)
    rows = np.random.default_rng(0).permutation(len(table))[: given.images]
    table = table.select(np.sort(rows))
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        compare_extraction(table, work)
        data = str(write_table(table, work / "train.csv"))
        compare_training("linear probe", [], data, work)
        compare_training("layover", ["head.name=layover"], data, work)


if __name__ == "__main__":
    main()
