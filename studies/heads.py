"""Heads on a frozen backbone: GAP, transformer decoder, ML-Decoder with 20 and 80 queries; queries and groupings.

    python studies/heads.py coco-mini/train.csv coco-mini/val.csv --out runs/studies/heads

The paper's claims (ML-Decoder, Tables 1 and 7): ML-Decoder above GAP by more than 1 mAP and level with the transformer
decoder; learnable and fixed queries alike. Widths are those of `ml-decoder-small`. Learning rate, dropout and epochs
were chosen on a fifth of the training images (see docs/results.md); nothing was chosen on the validation table.
"""

import json

from command import study
from tagloom.data import load_table
from tagloom.labels.graph import partition
from tagloom.studies.variants import Variant

SMALL = ("head.options.width=256", "head.options.decoder.feed_forward=512", "head.options.feature_dropout=0.5")


def variants(data: str) -> list[Variant]:
    """List the rows of the study; label-graph groups come from the training labels."""
    groups = partition(load_table(data).positive, k=20, kind="co")
    one = (0,)
    return [
        Variant("GAP", "quick-gap"),
        Variant("transformer decoder", "quick", ("head.name=transformer-decoder", *SMALL)),
        Variant("ML-Decoder 20 queries", "quick", ("head.options.readout.groups=20",)),
        Variant("ML-Decoder 80 queries", "quick", ("head.options.readout.groups=80",)),
        Variant(
            "80 learnable queries", "quick", ("head.options.readout.groups=80", "head.options.queries=learnable"), one
        ),
        Variant(
            "20 consecutive groups",
            "quick",
            ("head.options.readout.groups=20", "head.options.readout.grouping=consecutive"),
            one,
        ),
        Variant("20 label-graph groups", "quick", (f"head.options.readout.grouping={json.dumps(groups)}",), one),
    ]


if __name__ == "__main__":
    study(__doc__, variants, "runs/studies/heads")
