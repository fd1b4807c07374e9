"""The closed tables of names that a recipe may use. Torch-free, so that a recipe is checked in any install."""

from typing import Literal, TypeAlias, get_args

HEAD_NAMES = (
    "gap",
    "layover",
    "ml-decoder",
    "ml-decoder-small",
    "ml-decoder-words",
    "ml-decoder-words-grouped",
    "transformer-decoder",
    "query2label",
    "hsq",
    "tf",
    "query",
)

LOSS_NAMES = ("asymmetric", "focal", "bce", "soft-margin", "cross-entropy")

Task: TypeAlias = Literal["multi", "single"]
"""Any number of labels per image, or exactly one."""

MetricName: TypeAlias = Literal["mAP", "CF1", "OF1", "top1"]
"""The metrics that sum up a tagger, in percent: all that a recipe can select epochs by. `tagloom.metrics.score` has a
value for each; "top1" only with `task="single"`."""
METRIC_NAMES: tuple[MetricName, ...] = get_args(MetricName)

# The metrics shown for a tagger of each task, the most telling first. That one selects epochs by default.
SHOWN_METRICS: dict[Task, tuple[MetricName, ...]] = {"multi": ("mAP", "CF1", "OF1"), "single": ("top1", "mAP")}
SINGLE_LABEL_METRICS: tuple[MetricName, ...] = ("top1",)

# Figures that a paper may report for a recipe, in percent: "zsl" for unseen labels only, "gzsl" for all labels,
# "baseline" for the same training without teachers.
FIGURE_NAMES = (
    *METRIC_NAMES,
    "baseline_mAP",
    *("zsl_mAP", "zsl_F1@3", "zsl_F1@5", "gzsl_mAP", "gzsl_F1@3", "gzsl_F1@5"),
)
