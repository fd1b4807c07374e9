"""Hybrid sharing on a frozen backbone: Query2Label, HSQ-Linear, HSQ with 0, 1, 4 and 16 shared experts, and ML-Decoder.

python studies/sharing.py coco-mini/train.csv coco-mini/val.csv --out runs/studies/sharing
"""

from command import study
from runner import Variant

SMALL = ("head.options.width=128", "head.options.feed_forward=512", "head.options.feature_dropout=0.5")
VARIANTS: list[Variant] = []

if __name__ == "__main__":
    study(__doc__, lambda data: VARIANTS, "runs/studies/sharing")
