"""The heads of ML-Decoder and HSQ over a backbone whose end is trained too.

    python studies/heads_tail.py coco-mini/train.csv coco-mini/val.csv --out runs/studies/heads-tail

`quick-tail` as it is, with each head in turn: one cache, the same views, epochs and rates for all. Transformer heads
have width 128 and feed-forward 512, as in studies/sharing.py; ML-Decoder and the transformer decoder of its paper have
the widths of `ml-decoder-small`, as in studies/heads.py.
"""

from command import study
from heads import SMALL as DECODER
from sharing import PRINTED, head, shared
from tagloom.studies.variants import Variant

HEADS: dict[str, tuple[str, ...]] = {
    "GAP": ("head.name=gap", "head.options={}"),
    "ML-Decoder 80 queries": ("head.options.readout.groups=80",),
    "ML-Decoder 20 queries": ("head.options.readout.groups=20",),
    "transformer decoder": ("head.name=transformer-decoder", *DECODER),
    "Query2Label": head("query2label"),
    "HSQ as printed, 16 shared experts": head("hsq", PRINTED),
    "HSQ as printed, 1 shared expert": head("hsq", PRINTED, shared(1)),
    "HSQ, no shared expert": head("hsq", shared(0)),
    "HSQ-Linear": head("hsq", "head.options.readout=linear-layers"),
}
VARIANTS = [Variant(name, "quick-tail", settings, (0,)) for name, settings in HEADS.items()]


if __name__ == "__main__":
    study(__doc__, lambda data: VARIANTS, "runs/studies/heads-tail")
