"""Hybrid sharing on a frozen backbone: Query2Label, HSQ with 0 to 16 shared experts, HSQ-Linear, and ML-Decoder.

    python studies/sharing.py coco-mini/train.csv coco-mini/val.csv --out runs/studies/sharing

The paper's claims (HSQ, Table 1): without shared experts clearly below; with shared experts above Query2Label by about
1.3 mAP, and above HSQ-Linear. "HSQ" reads the shared branch, "as printed" is Algorithm 1 to the letter (docs/heads.md).
Equal budgets: the same transformer, width 128, feed-forward 512, and the settings of `quick`. Settings were chosen on a
fifth of the training images (studies/sharing_tuning.py); nothing was chosen on the validation table.
"""

from command import study
from tagloom.studies.variants import Variant

SMALL = ("head.options.width=128", "head.options.decoder.feed_forward=512", "head.options.feature_dropout=0.5")
PRINTED = "head.options.readout.shared_input=task"
READ_ON = "head.options.readout.shared_input=shared"
ONE = (0,)


def head(name: str, *settings: str) -> tuple[str, ...]:
    """Settings of a head of small width."""
    return (f"head.name={name}", *SMALL, *settings)


def shared(number: int) -> str:
    """The setting for so many shared experts."""
    return f"head.options.readout.shared_experts={number}"


VARIANTS = [
    Variant("Query2Label", "quick", head("query2label")),
    Variant("HSQ as printed, 16 shared experts", "quick", head("hsq", PRINTED)),
    Variant("HSQ, 16 shared experts", "quick", head("hsq", READ_ON)),
    Variant("HSQ-Linear", "quick", head("hsq", "head.options.readout=linear-layers"), ONE),
    Variant("HSQ, no shared expert", "quick", head("hsq", shared(0)), ONE),
    Variant("HSQ as printed, 1 shared expert", "quick", head("hsq", PRINTED, shared(1)), ONE),
    Variant("HSQ as printed, 4 shared experts", "quick", head("hsq", PRINTED, shared(4)), ONE),
    Variant("ML-Decoder, group layer", "quick", head("ml-decoder")),
    Variant(
        "ML-Decoder, sharing as printed", "quick", head("ml-decoder", "head.options.readout=hybrid-sharing", PRINTED)
    ),
]

if __name__ == "__main__":
    study(__doc__, lambda data: VARIANTS, "runs/studies/sharing")
