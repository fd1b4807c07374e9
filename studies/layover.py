"""Layover on a frozen backbone: a linear probe against hints from stages 1, 2, 3 and several, as printed and otherwise.

    python studies/layover.py coco-mini/train.csv coco-mini/val.csv --out runs/studies/layover

The paper's claim (Table 1): layover is above the linear probe by 2 to 7 mAP, most of it in recall. Both are run with
the paper's settings (SGD 0.1, soft margin, 30 epochs) and with those that suited the probe best (`quick-gap`). The last
epoch counts, so that nothing is chosen on the validation table. At the end the amounts α that were learned are printed,
over 500 images of the validation table.
"""

import numpy as np
from rich.console import Console

from command import study
from tagloom.data import load_table
from tagloom.explain.layover import mixing_amounts
from tagloom.studies.outcomes import StudyResult
from tagloom.studies.variants import Variant

PAPER = ("training.select=last", "thresholds.aim=fixed")
METRICS = ("mAP", "CP", "CR", "CF1", "OP", "OR", "OF1")


def layover(
    name: str, stages: str, *settings: str, recipe: str = "quick-gap", seeds: tuple[int, ...] = (0, 1, 2)
) -> Variant:
    """A layover head that reads the given stages."""
    return Variant(name, recipe, ("head.name=layover", f"head.options.stages={stages}", *settings), seeds)


STAGES = [
    layover("layover @1", "[1]"),
    layover("layover @2", "[2]"),
    layover("layover @3", "[3]"),
    layover("layover @1, 2, 3", "[1,2,3]"),
]
TUNED = [layover("concatenated @3, 4, 5", "[3,4,5]", "head.options.mixing=concatenate")]  # studies/layover_tuning.py
QUERIES = [
    Variant("ML-Decoder, 20 queries", "quick-ml-decoder", seeds=(0,)),
    Variant("ML-Decoder, 20 queries, tokens @3, 4, 5", "quick-ml-decoder", ("head.options.stages=[3,4,5]",), (0,)),
]

VARIANTS = [
    Variant("probe, paper's settings", "probe", PAPER),
    layover("layover @1, paper's settings", "[1]", *PAPER, recipe="layover"),
    layover("layover @2, paper's settings", "[2]", *PAPER, recipe="layover"),
    layover("layover @3, paper's settings", "[3]", *PAPER, recipe="layover"),
    Variant("linear probe", "quick-gap"),
    *STAGES,
    *TUNED,
    *QUERIES,
]


def print_amounts(result: StudyResult, val: str) -> None:
    """Print α of every run that has any: per stage the mean over images, and the least and greatest."""
    table = load_table(val)
    paths = [table.path(row) for row in range(0, len(table), max(1, len(table) // 500))]
    for folders in result.folders.values():
        for folder in folders:
            found = mixing_amounts(folder, paths, device="cpu")
            if found is None:
                continue
            cells = [
                f"@{stage}: {column.mean():.2g} ({column.min():.2g} to {column.max():.2g})"
                for stage, column in zip(found[0], np.asarray(found[1], np.float64).T, strict=True)
            ]
            Console().print(f"α of {folder.name}: {', '.join(cells)}", markup=False)


if __name__ == "__main__":
    print_amounts(*study(__doc__, lambda data: VARIANTS, "runs/studies/layover", METRICS))
