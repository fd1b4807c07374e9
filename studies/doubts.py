"""Doubts about labels: how many of those that were made wrong on purpose are found, and how soon.

    python studies/doubts.py coco-mini/train.csv --out runs/studies/doubts.json

Takes 5 % of the labels away, adds as many wrong ones at random, and ranks all labels by doubt from out-of-fold scores:
as `tagloom doubts` does, by the loss of each pair alone, and by the loss after calibration. Chance is a random order
of all pairs.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tagloom.cache_folder import default_cache_folder
from tagloom.data import LabelTable, load_table
from tagloom.recipe import load_recipe
from tagloom.scoring.calibration import to_scores
from tagloom.scoring.calibration_fit import fit_calibration
from tagloom.scoring.doubts import find_doubts
from tagloom.training.folds import score_out_of_fold

FIRST, LAST = 500, 2000


def flipped(table: LabelTable, share: float, seed: int) -> LabelTable:
    """Take a share of the labels away, and add as many at random pairs that had none."""
    generator = np.random.default_rng(seed)
    labels = table.targets(slice(None)).astype(bool)
    present, absent = np.flatnonzero(labels), np.flatnonzero(~labels)
    count = round(share * len(present))
    changed = labels.ravel().copy()
    changed[generator.choice(present, count, replace=False)] = False
    changed[generator.choice(absent, count, replace=False)] = True
    return replace(table, positive=csr_array(changed.reshape(labels.shape)))


def main() -> None:
    """Flip, score and print a table in Markdown."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", help="table whose labels are taken for true")
    arguments.add_argument("--recipe", default="quick-gap")
    arguments.add_argument("--folds", type=int, default=4)
    arguments.add_argument("--share", type=float, default=0.05)
    arguments.add_argument("--out", type=Path, default=Path("runs/studies/doubts.json"))
    given = arguments.parse_args()
    truth = load_table(given.data)
    table = flipped(truth, given.share, seed=0)
    found = score_out_of_fold(table, load_recipe(given.recipe), given.folds, cache_folder=default_cache_folder())
    said, true = table.targets(found.rows), truth.targets(found.rows)
    wrong = said != true
    plain = to_scores(found.logits, "sigmoid")
    calibrated = to_scores(found.logits, "sigmoid", fit_calibration(found.logits, said, kind="per-class"))
    doubts = find_doubts(calibrated, said, None, table.classes, count=LAST)
    ranked = {
        "tagloom doubts": doubts.rows * said.shape[1] + doubts.columns,
        "loss": by_loss(plain, said),
        "loss, calibrated": by_loss(calibrated, said),
    }
    total = int(wrong.sum())
    print(f"{total:,} of {wrong.size:,} pairs are wrong\n")
    print(f"| ranking | right among the first {FIRST} | found among the first {LAST:,} |\n| --- | --- | --- |")
    rows = {"chance": {"precision": total / wrong.size, "found": LAST / wrong.size}}
    for name, order in ranked.items():
        hits = wrong.ravel()[order]
        rows[name] = {"precision": float(hits[:FIRST].mean()), "found": float(hits[:LAST].sum() / total)}
    for name, row in rows.items():
        print(f"| {name} | {row['precision']:.1%} | {row['found']:.1%} |")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def by_loss(scores: NDArray[np.float32], said: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Order pairs by the probability given to what the label says, lowest first."""
    agreement = np.where(said > 0, scores, 1 - scores).ravel()
    return np.argsort(agreement, kind="stable")[:LAST]


if __name__ == "__main__":
    main()
