"""The parts of a recipe that are about training: each a dataclass whose values are checked when it is made."""

from dataclasses import dataclass, field
from typing import Any, Literal

from tagloom.checks import check_choice, check_number, check_whole
from tagloom.recipe.head_parts import nest_options
from tagloom.recipe.names import HEADS, LOSSES, MetricName

MAX_BROKEN_SHARE = 0.05
"""If more images than this share cannot be read, the paths or the disk are wrong, so work stops early."""


@dataclass(frozen=True)
class DataSettings:
    """How the label table is used.

    Attributes:
        holdout: Share of the training images held out to calibrate scores, to choose thresholds and, when there is no
            validation table, to choose the best epoch. Never trained on.
        max_broken: The run stops before its first epoch if a larger share of images cannot be read.
    """

    holdout: float = 0.1
    max_broken: float = MAX_BROKEN_SHARE

    def __post_init__(self) -> None:
        check_number("data.holdout", self.holdout, 0.0, 0.5)
        check_number("data.max_broken", self.max_broken, 0.0, 1.0)


@dataclass(frozen=True)
class BackboneSettings:
    """The network below the head.

    Attributes:
        name: Any timm model.
        weights: "bundled", "hub", "none", or a file.
        frozen: Whether its weights stay fixed; then features can be extracted once and heads train from them.
        drop_path: Stochastic depth: the chance that training skips the last block; earlier blocks have a lower one.
    """

    name: str = "tf_efficientnet_lite0"
    weights: str = "bundled"
    frozen: bool = True
    drop_path: float = 0.0

    def __post_init__(self) -> None:
        check_number("backbone.drop_path", self.drop_path, 0.0, 0.9)


@dataclass(frozen=True)
class HeadSettings:
    """The head: a name and its options.

    Attributes:
        name: A key of `HEADS`.
        options: The head's own options, checked by the head. A query head has those of its parts under `queries`,
            `decoder` and `readout`.
    """

    name: str = "gap"
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("head", self.name, HEADS)
        object.__setattr__(self, "options", nest_options(self.name, self.options))


@dataclass(frozen=True)
class WordSettings:
    """Where label vectors come from, for heads with word queries, and how training varies them.

    Attributes:
        source: A package, file, folder or model, as `tagloom.words` lists them.
        query_noise: Deviation of the Gaussian noise added to the words in each batch; words have a mean square of 1.
        random_queries: How many queries of random words are added to those of the classes.
        random_label: The label of random words for every image: "absent" or "present".
    """

    source: str = ""
    query_noise: float = 0.0
    random_queries: int = 0
    random_label: Literal["absent", "present"] = "absent"

    def __post_init__(self) -> None:
        check_number("words.query_noise", self.query_noise, 0.0, 10.0)
        check_whole("words.random_queries", self.random_queries, 0, 100_000)

    @property
    def augmented(self) -> bool:
        """Whether training varies the words."""
        return self.query_noise > 0 or self.random_queries > 0


@dataclass(frozen=True)
class LossSettings:
    """The loss: a name and its options.

    Attributes:
        name: A key of `LOSSES`.
        options: The loss's own options, checked by the loss.
    """

    name: str = "asymmetric"
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("loss", self.name, LOSSES)


@dataclass(frozen=True)
class OptimiserSettings:
    """How weights are updated.

    Attributes:
        name: "adamw", "sgd" or "lamb".
        learning_rate: The highest learning rate of the schedule.
        backbone_factor: The backbone's rate as a multiple of the head's, when it is trained.
        weight_decay: Decay of matrices; vectors (biases, norms) are never decayed.
        momentum: Momentum of sgd, first beta of adamw and lamb.
        second_momentum: Second beta of adamw and lamb.
        schedule: "one-cycle" (up over `warmup`, then down to nearly zero), "cosine" or "constant".
        warmup: Share of all steps in which the rate rises.
        clip_norm: Largest gradient norm; 0 for no clipping.
    """

    name: Literal["adamw", "sgd", "lamb"] = "adamw"
    learning_rate: float = 1e-3
    backbone_factor: float = 1.0
    weight_decay: float = 1e-2
    momentum: float = 0.9
    second_momentum: float = 0.999
    schedule: Literal["one-cycle", "cosine", "constant"] = "one-cycle"
    warmup: float = 0.3
    clip_norm: float = 0.0

    def __post_init__(self) -> None:
        check_number("optimiser.learning_rate", self.learning_rate, 1e-9, 1e3)
        check_number("optimiser.backbone_factor", self.backbone_factor, 0.0, 100.0)
        check_number("optimiser.weight_decay", self.weight_decay, 0.0, 10.0)
        check_number("optimiser.momentum", self.momentum, 0.0, 0.9999)
        check_number("optimiser.second_momentum", self.second_momentum, 0.0, 0.999999)
        check_number("optimiser.warmup", self.warmup, 0.0, 0.9)
        check_number("optimiser.clip_norm", self.clip_norm, 0.0, 1e6)


@dataclass(frozen=True)
class TrainingSettings:
    """How long to train, and how.

    Attributes:
        epochs: Passes over the training images.
        batch_size: Images per step (per micro-step when accumulating).
        accumulate: Micro-steps whose gradients are summed for one step.
        ema: Decay of the running average of the weights that is evaluated and saved; 0 for none.
        precision: "auto" computes in half precision on GPUs and in float32 elsewhere; "float32" everywhere.
        cache_features: With a frozen backbone, extract features once and train from them.
        cached_views: How many augmented views of each training picture are cached as well as the plain one; every epoch
            uses one of them at random. 0 caches only the mirrored view, if `augment.flip` is set.
        standardise: With a frozen backbone, fit the head's feature scale to the training features before the first
            step. It has no effect on a backbone that is trained, whose features change.
        select: Which weights are saved: those of the "best" epoch on validation data, or of the "last".
        metric: What decides the best epoch and early stopping.
        patience: Stop after this many epochs without a better metric; 0 never stops early.
        seed: Everything random is decided by it, the epoch and the image's index.
        workers: Processes that decode images when features are not cached; they do not change the result.
        checkpoint_minutes: Longest time between two checkpoints; there is always one after every epoch.
    """

    epochs: int = 30
    batch_size: int = 64
    accumulate: int = 1
    ema: float = 0.0
    precision: Literal["auto", "float32"] = "auto"
    cache_features: bool = True
    cached_views: int = 0
    standardise: bool = True
    select: Literal["best", "last"] = "best"
    metric: MetricName = "mAP"
    patience: int = 0
    seed: int = 0
    workers: int = 2
    checkpoint_minutes: float = 5.0

    def __post_init__(self) -> None:
        check_whole("training.epochs", self.epochs, 1, 100_000)
        check_whole("training.batch_size", self.batch_size, 1, 1_000_000)
        check_whole("training.cached_views", self.cached_views, 0, 1000)
        check_whole("training.accumulate", self.accumulate, 1, 10_000)
        check_number("training.ema", self.ema, 0.0, 0.99999)
        check_whole("training.patience", self.patience, 0, 100_000)
        check_whole("training.seed", self.seed, 0, 2**32 - 1)
        check_whole("training.workers", self.workers, 0, 256)
        check_number("training.checkpoint_minutes", self.checkpoint_minutes, 0.0, 1e6)


@dataclass(frozen=True)
class CalibrationSettings:
    """Whether scores are calibrated to probabilities, on held-out images, before thresholds are chosen.

    Attributes:
        kind: "none"; "shared" for one scale and offset of all logits; "per-class" for one of each per class, where
            classes with few positives stay close to the shared ones. With a softmax "shared" is a temperature.
    """

    kind: Literal["none", "shared", "per-class"] = "none"


@dataclass(frozen=True)
class ThresholdSettings:
    """The score above which a class becomes a tag, chosen per class on held-out images.

    Attributes:
        aim: "f1" (best F1), "precision" (lowest threshold that reaches precision `value`), "fixed" (`value` for all).
        value: The precision to reach, or the fixed threshold.
    """

    aim: Literal["f1", "precision", "fixed"] = "f1"
    value: float = 0.5

    def __post_init__(self) -> None:
        check_number("thresholds.value", self.value, 0.0, 1.0)
