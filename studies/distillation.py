"""Distillation on a frozen backbone: the rows of the CPSD paper's Table 3, its Figure 3, and controls.

    python studies/distillation.py coco-mini/train.csv coco-mini/val.csv --out runs/studies/distillation

The paper's claims: CPSD above the baseline by 0.9 to 1.5 mAP and above self-distillation by 0.7 to 1.4 (Table 3), more
parts better up to about five, random parts below the graphs' (Figure 3). The paper's ratio of epochs, 20 for teachers
and 80 for the student, is kept: 3 and 12. The distance counts 0.05; two rows show 0.02 and, as printed, 1. With a
linear head on frozen features labels do not interact, so there distillation can change next to nothing: the last two
rows check it. Seconds include the teachers'. Variants that have teachers in common share them, so run "CPSD" before
"co", "dis" and the other weights.
"""

from command import study
from runner import Variant
from sharing import PRINTED, SMALL
from tagloom.recipe.distillation import Distillation

ONE = (0,)
RECIPE = "quick-ml-decoder"
EPOCHS = ("training.epochs=12",)
HEAD = (*SMALL, *EPOCHS)
HSQ = ("head.name=hsq", PRINTED, *HEAD)
LINEAR = (
    "optimiser.name=adamw",
    "optimiser.learning_rate=1e-3",
)  # the squared distance is too steep for quick-gap's SGD


def teachers(*kinds: str, k: int = 5, weight: float = 0.05) -> Distillation:
    """Teachers of these kinds, with the paper's ratio of epochs."""
    return Distillation(teacher_epochs=3, kinds=kinds, k=k, weights=dict.fromkeys(kinds, weight))


TABLE_3 = [
    Variant("baseline", RECIPE, HEAD),
    Variant("self", RECIPE, HEAD, distill=teachers("self")),
    Variant("CPSD", RECIPE, HEAD, distill=teachers("co", "dis")),
    Variant("co", RECIPE, HEAD, distill=teachers("co"), teachers_of="CPSD"),
    Variant("dis", RECIPE, HEAD, distill=teachers("dis"), teachers_of="CPSD"),
    Variant("random", RECIPE, HEAD, ONE, teachers("random")),
]
VARIANTS = [
    *TABLE_3,
    Variant("CPSD weight 0.02", RECIPE, HEAD, ONE, teachers("co", "dis", weight=0.02), "CPSD"),
    Variant("CPSD weight 1", RECIPE, HEAD, ONE, teachers("co", "dis", weight=1.0), "CPSD"),
    Variant("CPSD k = 2", RECIPE, HEAD, ONE, teachers("co", "dis", k=2)),
    Variant("CPSD k = 8", RECIPE, HEAD, ONE, teachers("co", "dis", k=8)),
    Variant("HSQ", RECIPE, HSQ, ONE),
    Variant("HSQ CPSD", RECIPE, HSQ, ONE, teachers("co", "dis")),
    Variant("linear head", "quick-gap", LINEAR, ONE),
    Variant("linear head CPSD", "quick-gap", LINEAR, ONE, teachers("co", "dis")),
]


if __name__ == "__main__":
    study(__doc__, lambda data: VARIANTS, "runs/studies/distillation")
