"""Distillation on a frozen backbone: the rows of the CPSD paper's Table 3, its Figure 3, and two controls.

    python studies/distillation.py coco-mini/train.csv coco-mini/val.csv --out runs/studies/distillation

The paper's claims: CPSD above the baseline by 0.9 to 1.5 mAP and above self-distillation by 0.7 to 1.4 (Table 3), more
parts better up to about five, random parts below the graphs' (Figure 3). The paper's ratio of epochs, 20 for teachers
and 80 for the student, is kept: 2 and 10. With a linear head on frozen features labels do not interact, so there
distillation can change next to nothing: the last two rows check it. Seconds include the teachers'. Variants that have
teachers in common share them, so run "CPSD" before "co" and "dis".
"""

from command import study
from runner import Variant
from sharing import PRINTED, head
from tagloom.training.plan import Distillation

ONE = (0,)
RECIPE = "quick-ml-decoder"
LINEAR = (
    "optimiser.name=adamw",
    "optimiser.learning_rate=1e-3",
)  # the squared distance is too steep for quick-gap's SGD
HSQ = head("hsq", PRINTED)


def teachers(*kinds: str, k: int = 5) -> Distillation:
    """Teachers of these kinds, with the paper's ratio of epochs."""
    return Distillation(teacher_epochs=2, kinds=kinds, k=k)


VARIANTS = [
    Variant("baseline", RECIPE),
    Variant("self", RECIPE, distill=teachers("self")),
    Variant("CPSD", RECIPE, distill=teachers("co", "dis")),
    Variant("co", RECIPE, distill=teachers("co"), teachers_of="CPSD"),
    Variant("dis", RECIPE, distill=teachers("dis"), teachers_of="CPSD"),
    Variant("random", RECIPE, distill=teachers("random")),
    Variant("CPSD k = 2", RECIPE, seeds=ONE, distill=teachers("co", "dis", k=2)),
    Variant("CPSD k = 8", RECIPE, seeds=ONE, distill=teachers("co", "dis", k=8)),
    Variant("HSQ", "quick", HSQ, ONE),
    Variant("HSQ CPSD", "quick", HSQ, ONE, teachers("co", "dis")),
    Variant("linear head", "quick-gap", LINEAR, ONE),
    Variant("linear head CPSD", "quick-gap", LINEAR, ONE, teachers("co", "dis")),
]


if __name__ == "__main__":
    study(__doc__, lambda data: VARIANTS, "runs/studies/distillation")
