"""Small objects: average precision by the size of the object, on the embedded scenes.

    python studies/object_sizes.py --out runs/studies/object-sizes

A label's true pictures are parted by the size of its largest object there (a third of all objects in each part), its
pictures without the label are the same for all parts, and the average precision of each part is averaged over labels.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from command import run_study
from layover import STAGES, TUNED
from tagloom.data import load_table
from tagloom.data.scenes import write_scenes
from tagloom.data.table import LabelTable
from tagloom.evaluation.evaluate import evaluate
from tagloom.metrics import average_precision
from tagloom.predict.tagger import load
from tagloom.studies.variants import Variant

PARTS = ("small", "middle", "large")
VARIANTS = [Variant("linear probe", "quick-gap"), *STAGES, *TUNED]


def largest_objects(scenes: Path) -> dict[tuple[str, str], float]:
    """Give the size of the largest object of each label in each picture, by (picture, label)."""
    sizes: dict[tuple[str, str], float] = defaultdict(float)
    for line in (scenes / "boxes.jsonl").read_text(encoding="utf-8").splitlines():
        thing = json.loads(line)
        for label in (thing["thing"], f"{thing['colour']} {thing['thing']}"):
            key = (thing["image"], label)
            sizes[key] = max(sizes[key], thing["size"])
    return sizes


def precision_by_size(
    scores: NDArray[np.float32], table: LabelTable, sizes: Mapping[tuple[str, str], float]
) -> dict[str, float]:
    """Average AP over labels, for the small, middle and large objects among their true pictures."""
    targets = table.targets(np.arange(len(table)))
    size = np.array([[sizes.get((image, label), 0.0) for label in table.classes] for image in table.images])
    shown = (targets > 0) & (size > 0)
    limits = np.quantile(size[shown], [0, 1 / 3, 2 / 3, 1])
    found = {}
    for part, low, high in zip(PARTS, limits[:-1], limits[1:], strict=True):
        inside = shown & (size >= low) & ((size < high) | (high == limits[-1]))
        # True pictures of other sizes are neither right nor wrong here: they leave the ranking.
        precision = average_precision(scores, inside.astype(np.uint8), known=inside | (targets == 0))
        found[part] = 100 * float(np.nanmean(precision))
    return found


def main() -> None:
    """Draw scenes, train the variants on them, and print the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, default=Path("runs/studies/object-sizes"))
    arguments.add_argument("--images", type=int, default=2400, help="training pictures to draw")
    given = arguments.parse_args()
    scenes = write_scenes(given.out / "scenes", train=given.images, val=600, test=1200)
    data, val = str(scenes / "train.csv"), str(scenes / "val.csv")
    result = run_study(VARIANTS, data, val, given.out, metrics=("mAP", "CR", "OR"))
    sizes, test = largest_objects(scenes), load_table(scenes / "test.csv")
    lines = ["| variant | " + " | ".join(PARTS) + " |", "| --- " * (len(PARTS) + 1) + "|"]
    for name, folders in result.folders.items():
        rows = []
        for folder in folders:
            found = evaluate(load(folder, device="cpu"), test)
            rows.append(precision_by_size(found.scores, test.select(found.rows), sizes))
        means = {part: np.mean([row[part] for row in rows]) for part in PARTS}
        lines.append(f"| {name} | " + " | ".join(f"{means[part]:.2f}" for part in PARTS) + " |")
    (given.out / "sizes.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    Console().print("\n".join(lines), markup=False)


if __name__ == "__main__":
    main()
