"""How the settings of studies/sharing.py were chosen: candidates on a fifth of the training images held aside.

    python studies/sharing_tuning.py coco-mini/train.csv --out runs/studies/sharing-tuning

Query2Label, the baseline, gets at least as many candidates as hybrid sharing. The validation table plays no part in it.
"""

from command import tuning
from sharing import PRINTED, SMALL
from tagloom.studies.variants import Variant


def candidate(name: str, head: str, *settings: str) -> Variant:
    """One candidate, with the settings of `quick` unless it changes them."""
    return Variant(name, "quick", (f"head.name={head}", *SMALL, "data.holdout=0.05", *settings), seeds=(0,))


RATE = "optimiser.learning_rate="
DROP = "head.options.feature_dropout="
DECAY = "optimiser.weight_decay=0.3"

VARIANTS = [
    candidate("Query2Label 1e-3", "query2label"),
    candidate("Query2Label 5e-4", "query2label", RATE + "5e-4"),
    candidate("Query2Label 2e-3", "query2label", RATE + "2e-3"),
    candidate("Query2Label 1e-3 dropout 0.3", "query2label", DROP + "0.3"),
    candidate("Query2Label 1e-3 decay 0.3", "query2label", DECAY),
    candidate("HSQ as printed 1e-3 decay 0.3", "hsq", PRINTED, DECAY),
    candidate("HSQ as printed 1e-3 decay 0.3 dropout 0.6", "hsq", PRINTED, DECAY, DROP + "0.6"),
    candidate(
        "HSQ as printed 1e-3 decay 0.3 one layer", "hsq", PRINTED, DECAY, "head.options.readout.layer_widths=[64]"
    ),
]


if __name__ == "__main__":
    tuning(__doc__, VARIANTS, "runs/studies/sharing-tuning")
