"""Distillation on a frozen backbone: the rows of the CPSD paper's Table 3, its Figure 3, and controls.

    python studies/distillation.py coco-mini/train.csv coco-mini/val.csv --out runs/studies/distillation

The paper's claims: CPSD above the baseline by 0.9 to 1.5 mAP and above self-distillation by 0.7 to 1.4 (Table 3), more
parts better up to about five, random parts below the graphs' (Figure 3). Teachers see all images for 8 epochs, after
which they are, merged, at least as good as the student alone; the column "teachers" says how good. The student trains
30 epochs, and so does the baseline; a second baseline trains 12, after which it hardly gains. Each distance counts 0.5,
the released code's weight. Rows at the end change one thing each: the weight, k, the student's length, and the teachers
of an earlier study, which were too weak to teach (3 epochs on images with their labels). With a linear head on frozen
features labels do not interact, so the last two rows show what is left of distillation without it.

Seconds include the teachers'. Variants that have teachers in common share them.
"""

from command import study
from sharing import PRINTED, SMALL
from tagloom.studies.variants import Variant

ONE = (0,)
RECIPE = "quick-ml-decoder"
LONG = "training.epochs=30"
SHORT = "training.epochs=12"
HEAD = (*SMALL, LONG)
HSQ = ("head.name=hsq", PRINTED, *HEAD)
LINEAR = (
    "optimiser.name=adamw",  # the squared distance is too steep for quick-gap's SGD
    "optimiser.learning_rate=1e-3",
    "training.epochs=20",
)


def teachers(*kinds: str, epochs: int = 8, weight: float = 0.5, k: int = 5, images: str = "all") -> tuple[str, ...]:
    """Settings for teachers of these kinds, all with one weight."""
    return (
        f"distill.kinds=[{','.join(kinds)}]",
        f"distill.k={k}",
        f"distill.weights={weight}",
        f"distill.teacher_epochs={epochs}",
        f"distill.images={images}",
    )


BOTH = teachers("co", "dis")
TABLE_3 = [
    Variant("baseline", RECIPE, HEAD),
    Variant("self", RECIPE, (*HEAD, *teachers("self"))),
    Variant("CPSD", RECIPE, (*HEAD, *BOTH)),
    Variant("co", RECIPE, (*HEAD, *teachers("co"))),
    Variant("dis", RECIPE, (*HEAD, *teachers("dis"))),
    Variant("random", RECIPE, (*HEAD, *teachers("random"))),
]
CONTROLS = [
    Variant("baseline 12 epochs", RECIPE, (*SMALL, SHORT)),
    Variant("CPSD student 12 epochs", RECIPE, (*SMALL, SHORT, *BOTH), ONE),
    Variant("random sizes", RECIPE, (*HEAD, *teachers("random"), "distill.random_sizes=random"), ONE),
    Variant("self weight 1", RECIPE, (*HEAD, *teachers("self", weight=1.0)), ONE),
    Variant("co weight 1", RECIPE, (*HEAD, *teachers("co", weight=1.0)), ONE),
    Variant("dis weight 1", RECIPE, (*HEAD, *teachers("dis", weight=1.0)), ONE),
    Variant("CPSD weight 0.02", RECIPE, (*HEAD, *teachers("co", "dis", weight=0.02)), ONE),
    Variant("CPSD weight 0.1", RECIPE, (*HEAD, *teachers("co", "dis", weight=0.1)), ONE),
    Variant("CPSD weight 1", RECIPE, (*HEAD, *teachers("co", "dis", weight=1.0)), ONE),
    Variant("CPSD k = 2", RECIPE, (*HEAD, *teachers("co", "dis", k=2)), ONE),
    Variant("CPSD k = 8", RECIPE, (*HEAD, *teachers("co", "dis", k=8)), ONE),
    Variant("CPSD weak teachers", RECIPE, (*HEAD, *teachers("co", "dis", epochs=3, images="with-labels")), ONE),
    Variant("HSQ", RECIPE, HSQ, ONE),
    Variant("HSQ CPSD", RECIPE, (*HSQ, *BOTH), ONE),
    Variant("linear head", "quick-gap", LINEAR, ONE),
    Variant("linear head CPSD", "quick-gap", (*LINEAR, *BOTH), ONE),
]
VARIANTS = [*TABLE_3, *CONTROLS]


if __name__ == "__main__":
    study(__doc__, lambda data: VARIANTS, "runs/studies/distillation")
