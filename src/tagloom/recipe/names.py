"""The closed tables of names that a recipe may use. Torch-free, so that a recipe is checked in any install.

A head or a loss is one line here and its own file: the value says where it is written, as "module:name". These strings
are ours; a recipe gives only the keys.
"""

from importlib import import_module
from typing import Any

HEADS = {
    "gap": "tagloom.models.heads.pooled:PooledHead",
    "layover": "tagloom.models.heads.layover:LayoverHead",
    "ml-decoder": "tagloom.models.heads.presets:MLDecoder",
    "ml-decoder-small": "tagloom.models.heads.presets:MLDecoderSmall",
    "ml-decoder-words": "tagloom.models.heads.presets:MLDecoderWords",
    "ml-decoder-words-grouped": "tagloom.models.heads.presets:MLDecoderWordsGrouped",
    "transformer-decoder": "tagloom.models.heads.presets:TransformerDecoder",
    "query2label": "tagloom.models.heads.presets:Query2Label",
    "hsq": "tagloom.models.heads.presets:HSQ",
    "tf": "tagloom.models.heads.presets:TF",
    "query": "tagloom.models.heads.query_head:QueryHead",
}

LOSSES = {
    "asymmetric": "tagloom.losses:asymmetric_loss",
    "focal": "tagloom.losses:focal_loss",
    "bce": "tagloom.losses:binary_cross_entropy",
    "soft-margin": "tagloom.losses:soft_margin_loss",
    "cross-entropy": "tagloom.losses:cross_entropy",
}

# What a paper may report of a recipe, in percent: "zsl" of unseen labels only, "gzsl" of all labels, "baseline" of the
# same training without teachers.
FIGURE_NAMES = (
    *("mAP", "CF1", "OF1", "top1", "baseline_mAP"),
    *("zsl_mAP", "zsl_F1@3", "zsl_F1@5", "gzsl_mAP", "gzsl_F1@3", "gzsl_F1@5"),
)


def resolve(entry: str) -> Any:
    """Import what an entry of `HEADS` or `LOSSES` names.

    >>> resolve("tagloom.wording:shown")("cat")
    "'cat'"
    """
    module, _, name = entry.partition(":")
    return getattr(import_module(module), name)
