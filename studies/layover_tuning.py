"""How the better form of layover was found: candidates on a fifth of the training images held aside.

    python studies/layover_tuning.py coco-mini/train.csv --out runs/studies/layover-tuning

All have the settings of the tuned linear probe, which is the first candidate. The validation table plays no part in it.
"""

from command import tuning
from layover import layover
from tagloom.studies.variants import Variant

LATE = "[3,4,5]"
SETTINGS = ("data.holdout=0.05",)


def candidate(name: str, stages: str, *options: str) -> Variant:
    """A layover head with these options."""
    return layover(name, stages, *SETTINGS, *(f"head.options.{option}" for option in options), seeds=(0,))


VARIANTS = [
    Variant("linear probe", "quick-gap", SETTINGS, (0,)),
    candidate("as the paper @3, 4, 5", LATE),
    candidate("no activation @3, 4, 5", LATE, "activation=none"),
    candidate("amounts per class @3, 4, 5", LATE, "mixing=class"),
    candidate("amounts per class, no activation @3, 4, 5", LATE, "mixing=class", "activation=none"),
    candidate("concatenated @3, 4, 5", LATE, "mixing=concatenate"),
    candidate("concatenated @1, 2, 3", "[1,2,3]", "mixing=concatenate"),
    candidate("concatenated @5", "[5]", "mixing=concatenate"),
    candidate("concatenated @3, 4, 5, maximum", LATE, "mixing=concatenate", "pooling=max"),
    candidate("concatenated @3, 4, 5, generalised mean", LATE, "mixing=concatenate", "pooling=gem"),
    candidate("concatenated @3, 4, 5, mean and maximum", LATE, "mixing=concatenate", "pooling=mean+max"),
]


if __name__ == "__main__":
    tuning(__doc__, VARIANTS, "runs/studies/layover-tuning")
