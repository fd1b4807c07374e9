"""A recipe: all choices of one training, as plain data. Names in it are keys of closed tables, never import paths."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from tagloom.errors import RecipeError, unknown_name
from tagloom.recipe.distillation import Distillation
from tagloom.recipe.names import FIGURE_NAMES, SHOWN_METRICS, SINGLE_LABEL_METRICS, Task
from tagloom.recipe.parts import (
    BackboneSettings,
    CalibrationSettings,
    DataSettings,
    HeadSettings,
    LossSettings,
    OptimiserSettings,
    ThresholdSettings,
    TrainingSettings,
    UnknownSettings,
    WordSettings,
)
from tagloom.recipe.pictures import Augment, Preprocess
from tagloom.recipe.yaml_text import write_yaml


@dataclass(frozen=True)
class Recipe:
    """All choices of one training.

    Attributes:
        name: What the recipe is called.
        purpose: One line that says when to use it.
        licence: The licence of the trained tagger, for its model card.
        paper: The paper whose training it repeats; empty if it repeats none.
        reports: What the paper reports: `source`, and figures in percent by `FIGURE_NAMES`.
        task: "multi" (any number of labels per image) or "single" (exactly one).
        data, preprocess, augment, backbone, words, head, loss, unknown, optimiser, training, calibration, thresholds:
            The parts.
        distill: Defaults of `tagloom distill`; `tagloom train` has no teachers.
    """

    name: str = "custom"
    purpose: str = ""
    licence: str = "not stated"
    paper: Literal["", "ml-decoder", "query2label", "hsq", "layover", "cpsd"] = ""
    reports: dict[str, Any] = field(default_factory=dict)
    task: Task = "multi"
    data: DataSettings = field(default_factory=DataSettings)
    preprocess: Preprocess = field(default_factory=Preprocess)
    augment: Augment = field(default_factory=Augment)
    backbone: BackboneSettings = field(default_factory=BackboneSettings)
    words: WordSettings = field(default_factory=WordSettings)
    head: HeadSettings = field(default_factory=HeadSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    unknown: UnknownSettings = field(default_factory=UnknownSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    calibration: CalibrationSettings = field(default_factory=CalibrationSettings)
    thresholds: ThresholdSettings = field(default_factory=ThresholdSettings)
    distill: Distillation | None = None

    def __post_init__(self) -> None:
        _check_reports(self.reports)
        if self.task == "multi" and self.loss.name == "cross-entropy":
            raise RecipeError("loss 'cross-entropy' needs one label per image: set task: single, or use 'asymmetric'.")
        if self.task == "multi" and self.training.metric in SINGLE_LABEL_METRICS:
            raise RecipeError(
                f"training.metric '{self.training.metric}' needs one label per image: set task: single, or use "
                f"'{SHOWN_METRICS['multi'][0]}'."
            )
        if self.calibration.kind == "per-class" and self.activation == "softmax":
            raise RecipeError(
                "calibration.kind 'per-class' would change which class is best under a softmax: use 'shared'."
            )

        other_labels = self.words.random_queries or self.words.labels_per_step
        if other_labels and (self.activation == "softmax" or self.loss.options.get("weights") is not None):
            raise RecipeError(
                "words.random_queries and words.labels_per_step change which labels are in the loss of a step, so it "
                "cannot be 'cross-entropy' nor have label weights. Set both to 0."
            )

        moving = replace(self.augment, flip=0.0, randaugment_magnitude=Augment.randaugment_magnitude)
        if self.from_cache and moving != Augment() and not self.training.cached_views:
            raise RecipeError(
                "features are extracted once and cached, so the only augmentation that costs nothing is augment.flip. "
                "Set training.cached_views: 6 to cache six augmented views of each picture, or "
                "training.cache_features: false to augment pictures again in every epoch."
            )
        if self.from_cache and (self.augment.mixup, self.augment.cutmix, self.augment.repeats) != (0.0, 0.0, 1):
            raise RecipeError(
                "mixup, cutmix and repeats are drawn with every batch and cannot be cached. Set "
                "training.cache_features: false."
            )
        if self.training.cached_views and (not self.from_cache or self.augment == Augment()):
            raise RecipeError(
                "training.cached_views caches augmented views of pictures for a frozen backbone. Set backbone.frozen "
                "and training.cache_features, and choose augmentations in augment, or leave it at 0."
            )
        if self.training.cached_maps != "float16" and not self.from_cache:
            raise RecipeError(
                "training.cached_maps says how cached features are stored, and nothing is cached. Set backbone.frozen "
                "and training.cache_features, or leave it at float16."
            )

    @property
    def activation(self) -> Literal["sigmoid", "softmax"]:
        """What turns logits into scores. The loss decides it, since it decides what the logits mean."""
        return "softmax" if self.loss.name == "cross-entropy" else "sigmoid"

    @property
    def from_cache(self) -> bool:
        """Whether heads train from cached features."""
        return self.backbone.frozen and self.training.cache_features

    def to_dict(self) -> dict[str, Any]:
        """Give plain data that `recipe_from_dict` takes back."""
        return asdict(self)

    def to_yaml(self) -> str:
        """Write the whole recipe, defaults included."""
        return write_yaml(self.to_dict())


def _check_reports(reports: dict[str, Any]) -> None:
    for name, value in reports.items():
        if name == "source":
            if not isinstance(value, str):
                raise RecipeError(f"reports.source is {value!r}; it must name a paper and its table.")
        elif name not in FIGURE_NAMES:
            raise RecipeError("reports: " + unknown_name("figure", name, ("source", *FIGURE_NAMES)))
        elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
            raise RecipeError(f"reports.{name} is {value!r}; it must be a number of percent.")
    if reports and not reports.get("source"):
        raise RecipeError("reports: say where the figures come from, for example source: ML-Decoder, Table 10")
