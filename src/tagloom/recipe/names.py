"""The closed tables of names that a recipe may use. Torch-free, so that a recipe is checked in any install.

A head or a loss is one line here and its own file: the value says where it is written, as "module:name". These strings
are ours; a recipe gives only the keys.
"""

from importlib import import_module
from typing import Any, Literal, TypeAlias, get_args

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

Task: TypeAlias = Literal["multi", "single"]
"""Any number of labels per image, or exactly one."""

MetricName: TypeAlias = Literal["mAP", "CF1", "OF1", "top1"]
"""The metrics that sum up a tagger, in percent: all that a recipe can select epochs by. `tagloom.metrics.score` has a
value for each; "top1" only with `task="single"`."""
METRIC_NAMES: tuple[MetricName, ...] = get_args(MetricName)

# The metrics shown for a tagger of each task, the most telling first. That one selects epochs by default.
SHOWN_METRICS: dict[Task, tuple[MetricName, ...]] = {"multi": ("mAP", "CF1", "OF1"), "single": ("top1", "mAP")}
SINGLE_LABEL_METRICS: tuple[MetricName, ...] = ("top1",)

# Figures that a paper may report for a recipe, in percent, by the names of `tagloom.metrics.score`: "zsl" for unseen
# labels only, "gzsl" for all labels, "baseline" for the same training without teachers.
FIGURE_NAMES = (
    *METRIC_NAMES,
    *("CP", "CR", "OP", "OR", "CF1_top3", "OF1_top3"),
    "baseline_mAP",
    *("zsl_mAP", "zsl_F1@3", "zsl_F1@5", "gzsl_mAP", "gzsl_F1@3", "gzsl_F1@5"),
)


def resolve(entry: str) -> Any:
    """Import what an entry of `HEADS` or `LOSSES` names.

    >>> resolve("tagloom.wording:shown")("cat")
    "'cat'"
    """
    module, _, name = entry.partition(":")
    return getattr(import_module(module), name)
