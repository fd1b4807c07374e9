"""The heads of ML-Decoder and HSQ on a frozen backbone, with as many photographs as the papers have.

    python studies/heads_large.py coco-full/train.csv coco-mini/val.csv --out runs/studies/heads-large

82,081 photographs instead of 9,000. Four epochs, which are as many steps as 36 of 9,000, and no mirrored features, so
that the cache takes 5.6 GB in 8 bits; all else as in `quick`.
"""

from command import study
from heads_tail import HEADS
from tagloom.studies.variants import Variant

LARGE = ("training.epochs=4", "training.cached_maps=uint8", "augment.flip=0")
VARIANTS = [Variant(name, "quick", (*settings, *LARGE), (0,)) for name, settings in HEADS.items()]


if __name__ == "__main__":
    study(__doc__, lambda data: VARIANTS, "runs/studies/heads-large")
