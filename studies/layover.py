"""Layover on a frozen backbone: a linear probe against hints from stages 1, 2, 3 and several, as printed and otherwise.

    python studies/layover.py coco-mini/train.csv coco-mini/val.csv --out runs/studies/layover

The paper's claim (Table 1): layover is above the linear probe by 2 to 7 mAP, most of it in recall. Both are run with
the paper's settings (SGD 0.1, soft margin, 30 epochs) and with those that suited the probe best (`quick-gap`). The last
epoch counts, so that nothing is chosen on the validation table.
"""

from command import study
from runner import Variant

PAPER = ("training.select=last", "thresholds.aim=fixed")
METRICS = ("mAP", "CP", "CR", "CF1", "OP", "OR", "OF1")


def layover(name: str, stages: str, *settings: str, recipe: str = "quick-gap") -> Variant:
    """A layover head that reads the given stages."""
    return Variant(name, recipe, ("head.name=layover", f"head.options.stages={stages}", *settings))


STAGES = [
    layover("layover @1", "[1]"),
    layover("layover @2", "[2]"),
    layover("layover @3", "[3]"),
    layover("layover @1, 2, 3", "[1,2,3]"),
]
TUNED: list[Variant] = []

VARIANTS = [
    Variant("probe, paper's settings", "probe", PAPER),
    layover("layover @1, paper's settings", "[1]", *PAPER, recipe="layover"),
    layover("layover @2, paper's settings", "[2]", *PAPER, recipe="layover"),
    layover("layover @3, paper's settings", "[3]", *PAPER, recipe="layover"),
    Variant("linear probe", "quick-gap"),
    *STAGES,
    *TUNED,
]


if __name__ == "__main__":
    study(__doc__, lambda data: VARIANTS, "runs/studies/layover", METRICS)
