"""Learning where absence says nothing: most keywords are missing, and no negative is known.

    python studies/incomplete_labels.py coco-mini/train.csv coco-mini/val.csv --out runs/studies/incomplete-labels

Keeps each positive of the training table with a chance of 1/2, 1/4 and 1/8, forgets all negatives, and trains the ways
of the recipe's part `unknown`. The validation table is complete. `--tune` leaves it alone, and measures on a fifth of
the training images instead: the default weight was chosen that way.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

import tagloom
from tagloom.data import LabelTable, load_table
from tagloom.data.writing import write_known_pairs
from tagloom.studies.outcomes import StudyResult
from tagloom.studies.variants import Variant

SHARES = (2, 4, 8)
FULL = "full labels"


def variants(recipe: str, labels_per_image: float) -> list[Variant]:
    """List the ways. Expected positives are told how many labels an image really has; nobody knows that in use."""

    def way(name: str, *settings: str) -> Variant:
        return Variant(name, recipe, tuple(f"unknown.{setting}" for setting in settings), (0,))

    return [
        way("unknown left out", "learn_as=nothing"),
        *(way(f"weak negatives {weight}", f"weight={weight}") for weight in (0.1, 0.3, 1.0)),
        way(
            "expected positives",
            "learn_as=expected-positives",
            "weight=1",
            f"labels_per_image={labels_per_image:.3f}",
        ),
        way("pseudo-labels", "learn_as=pseudo-labels"),
    ]


def thinned(table: LabelTable, share: int) -> LabelTable:
    """Keep one of `share` positives, by chance, and nothing else."""
    chosen = np.random.default_rng(share).random(table.positive.nnz) < 1 / share
    pairs = table.positive.tocoo()
    kept = csr_array((pairs.data[chosen], (pairs.row[chosen], pairs.col[chosen])), shape=pairs.shape)
    return replace(table, positive=kept, exceptions=None, unlisted="unknown")


def main() -> None:
    """Run the study and print its table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", help="training table")
    arguments.add_argument("val", help="validation table")
    arguments.add_argument("--recipe", default="quick-gap")
    arguments.add_argument("--only", action="append", help="run only the way of this name; may be repeated")
    arguments.add_argument("--tune", action="store_true", help="measure on a fifth of the training images")
    arguments.add_argument("--out", type=Path, default=Path("runs/studies/incomplete-labels"))
    given = arguments.parse_args()
    table, val = load_table(given.data), load_table(given.val)
    if given.tune:
        table, val = table.split(0.2, seed=7)
    rows = [
        row for row in variants(given.recipe, table.positive.nnz / len(table)) if row.name in (given.only or row.name)
    ]
    measured = written(val, given.out / "val.jsonl")
    full = written(table, given.out / "full" / "train.jsonl")
    best = study([Variant(FULL, given.recipe, (), (0,))], full, measured, given.out / "full").outcomes[0]
    results = []
    for share in SHARES:
        folder = given.out / f"1-of-{share}"
        data = written(thinned(table, share), folder / "train.jsonl")
        results.append(study(rows, data, measured, folder))
    whole = best.mean("mAP")
    print(f"| way | {' | '.join(f'1/{share}' for share in SHARES)} |\n| --- | {'--- | ' * len(SHARES)}")
    for number, row in enumerate(rows):
        found = [result.outcomes[number].mean("mAP") for result in results]
        print(f"| {row.name} | {' | '.join(f'{value:.2f} ({value / whole:.0%})' for value in found)} |")
    print(f"\nfull labels: {whole:.2f}")


def study(rows: list[Variant], data: str, val: str, folder: Path) -> StudyResult:
    """Run some rows on one table."""
    return tagloom.study(rows, data, val=val, out=folder, metrics=("mAP",))


def written(table: LabelTable, path: Path) -> str:
    """Write a table with absolute paths, so that it can be read from anywhere."""
    absolute = replace(table, images=[str(table.path(row).absolute()) for row in range(len(table))])
    return str(write_known_pairs(absolute, path))


if __name__ == "__main__":
    main()
