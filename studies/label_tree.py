"""Label trees on COCO: 79 classes below 11 super-categories, and `person`, which is both.

    python studies/label_tree.py coco-mini/train.csv coco-mini/val.csv --out runs/studies/label-tree

Trains the recipe `quick` for four epochs, for time, twice: on the tree of studies/coco_tree.yaml, which the table gets
by a `classes.yaml` next to it, and on the 80 classes alone. Then it scores both on the validation table: mAP per level,
and how often a class scores more than the class above it, or is a tag while the class above it is none. The flat tagger
has no super-categories; theirs is the score of their best class.
"""

import argparse
import json
import os
import shutil
from pathlib import Path

import numpy as np

from tagloom.api import train
from tagloom.data import LabelTable, load_table
from tagloom.data.writing import write_table
from tagloom.metrics import score
from tagloom.predict.tagger import Tagger, load
from tagloom.scoring.calibration import to_scores
from tagloom.scoring.measure import level_metrics

TREE_FILE = Path(__file__).parent / "coco_tree.yaml"
EPOCHS = 4


def main() -> None:
    """Train, score and print a table in Markdown; results go to `--out`/label-tree.json."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", help="training table")
    arguments.add_argument("val", help="validation table")
    arguments.add_argument("--out", type=Path, default=Path("runs/studies/label-tree"))
    given = arguments.parse_args()
    folder = given.out / "tables"
    tree_train = with_tree_file(load_table(given.data), folder / "train.csv")
    tree_val = with_tree_file(load_table(given.val), folder / "val.csv")
    print(f"{len(tree_train):,} images to learn from, {len(tree_val):,} to measure on", flush=True)
    rows: dict[str, dict[str, float]] = {}
    for name, data in (("the tree", str(folder / "train.csv")), ("the 80 classes", given.data)):
        run = given.out / name.replace(" ", "-")
        if not (run / "tagger.json").exists():
            train(data, out=run, recipe="quick", epochs=EPOCHS, cache=os.environ.get("TAGLOOM_CACHE"))
        rows[name] = figures(load(run), tree_val)
        (given.out / "label-tree.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
        print(name, rows[name], flush=True)
    print(
        "| trained on | mAP of 12 super-categories | mAP of 79 classes | scores over their parent's: as they come |",
        end="",
    )
    print(" made consistent | tags without their parent |\n| --- | --- | --- | --- | --- | --- |")
    for name, row in rows.items():
        levels = f"{row['level 1']:.2f} | {row['level 2']:.2f}"
        raw = f"{row['raw']:,}" if name == "the tree" else "–"  # the others have no scores of super-categories
        print(f"| {name} | {levels} | {raw} | {row['scores']:,} | {row['tags']:,} |")


def with_tree_file(table: LabelTable, path: Path) -> LabelTable:
    """Write a table with `classes.yaml` next to it, and read it again."""
    write_table(table, path)
    path.with_name("classes.txt").unlink()
    shutil.copy(TREE_FILE, path.with_name("classes.yaml"))
    return load_table(path)


def figures(tagger: Tagger, table: LabelTable) -> dict[str, float]:
    """Measure a tagger on the tree. A parent that it does not have gets the score of its best class."""
    tree = table.tree
    columns = [tree.classes.index(name) for name in tagger.classes]
    logits = np.stack([row for _, row in tagger.stream_logits(table.path(row) for row in range(len(table)))])
    raw = np.zeros((len(table), len(tree.classes)), np.float32)
    raw[:, columns] = to_scores(logits, "sigmoid", tagger.spec.calibration)
    thresholds = np.ones(len(tree.classes), np.float32)
    thresholds[columns] = tagger.spec.threshold_row()
    scores = tree.consistent_scores(raw)
    rows = np.arange(len(table))
    metrics = score(scores, table.targets(rows), table.known(rows))
    levels = {f"level {level['level']}": level["mAP"] for level in level_metrics(metrics["AP"], tree)}
    tags = scores > tree.consistent_thresholds(thresholds)
    return levels | {
        "raw": tree.violations(raw),
        "scores": tree.violations(scores),
        "tags": tree.violations(tags),
    }


if __name__ == "__main__":
    main()
