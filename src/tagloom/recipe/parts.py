"""The parts of a recipe that are about training: each a dataclass whose values are checked when it is made."""

from dataclasses import dataclass, field
from typing import Any, Literal

from tagloom.checks import check_choice, check_number, check_whole
from tagloom.errors import RecipeError
from tagloom.recipe.head_parts import nest_options
from tagloom.recipe.names import HEADS, LOSSES, MetricName

MAX_BROKEN_SHARE = 0.05
"""If more images than this share cannot be read, the paths or the disk are wrong, so work stops early."""
MOST_HELD_OUT = 100_000
"""Images: enough for thresholds and calibration, and their scores for 9,600 classes take 4 GB of disk."""


MAX_DEPTH = 256
MAX_STAGES = 8


def check_depths(name: str, depths: tuple[int, ...]) -> None:
    """Refuse depths that no network has: they may come from a stranger's tagger folder, and blocks take memory."""
    check_whole(f"the number of {name}", len(depths), 0, MAX_STAGES)
    for depth in depths:
        check_whole(name, depth, 1, MAX_DEPTH)


@dataclass(frozen=True)
class DataSettings:
    """How the label table is used.

    Attributes:
        holdout: Share of the training images, at most 100,000 of them, held out to calibrate scores, to choose
            thresholds and, when there is no validation table, to choose the best epoch. Never trained on.
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
        weights: "bundled", "hub", "none", "hf-hub:owner/name@revision", or a file.
        frozen: Whether its weights stay fixed; then features can be extracted once and heads train from them.
        train_from: With a frozen backbone, the stage after which it is trained all the same: a number, or the name of
            one of its modules. What comes up to there is run once and cached. None trains nothing of it.
        tail_statistics: With `train_from`, whether the running statistics of batch norms stay "frozen" or are "trained"
            as well.
        drop_path: Stochastic depth: the chance that training skips the last block; earlier blocks have a lower one.
        normalise: Whether pixels are normalised with the mean and deviation of the weights, or left at 0 to 1.
        depths: Blocks of each stage, for TResNets, ResNets and ConvNeXts; empty for the network's own.
    """

    name: str = "tf_efficientnet_lite0"
    weights: str = "bundled"
    frozen: bool = True
    train_from: int | str | None = None
    tail_statistics: Literal["frozen", "trained"] = "frozen"
    drop_path: float = 0.0
    normalise: bool = True
    depths: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.train_from, int):
            check_whole("backbone.train_from", self.train_from, 1, 1000)
        if self.train_from is not None and not self.frozen:
            raise RecipeError(
                "backbone.train_from trains what comes after a stage, and backbone.frozen: false everything. Set "
                "backbone.frozen: true, or leave out backbone.train_from."
            )
        if self.train_from is None and self.tail_statistics != "frozen":
            raise RecipeError("backbone.tail_statistics is about a trained tail: set backbone.train_from too.")
        check_number("backbone.drop_path", self.drop_path, 0.0, 0.9)
        check_depths("backbone.depths", self.depths)


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
        labels_per_step: How many labels a step asks for, where there are more: those that are in one of its images, and
            others drawn at random; 0 for all. A step costs as much as its queries, so this is for thousands of labels.
    """

    source: str = ""
    query_noise: float = 0.0
    random_queries: int = 0
    random_label: Literal["absent", "present"] = "absent"
    labels_per_step: int = 0

    def __post_init__(self) -> None:
        check_number("words.query_noise", self.query_noise, 0.0, 10.0)
        check_whole("words.random_queries", self.random_queries, 0, 100_000)
        check_whole("words.labels_per_step", self.labels_per_step, 0, 1_000_000)

    @property
    def augmented(self) -> bool:
        """Whether training varies the words that a step asks for."""
        return self.query_noise > 0 or self.random_queries > 0 or self.labels_per_step > 0


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
class UnknownSettings:
    """What unknown pairs teach in classes that have fewer known negatives than positives, as keywords of photos do.

    In all other classes, and for "nothing" in these too, an unknown pair counts as the loss says: by default, not.

    Attributes:
        learn_as: "weak-negatives" takes them for negatives of a lower weight. "expected-positives" only asks for a
            number of positives per image (Cole et al., 2021). "pseudo-labels" trains a first round with weak negatives,
            takes the unknown pairs that then score like known positives for positives, and trains again.
        weight: The weight of a weak negative; of the term with "expected-positives".
        labels_per_image: For "expected-positives", how many labels an image really has; 0 for as many as are known.
    """

    learn_as: Literal["weak-negatives", "expected-positives", "pseudo-labels", "nothing"] = "weak-negatives"
    weight: float = 0.3
    labels_per_image: float = 0.0

    def __post_init__(self) -> None:
        check_number("unknown.weight", self.weight, 0.0, 1000.0 if self.learn_as == "expected-positives" else 1.0)
        check_number("unknown.labels_per_image", self.labels_per_image, 0.0, 1e6)


@dataclass(frozen=True)
class OptimiserSettings:
    """How weights are updated.

    Attributes:
        name: "adamw", "adam" (whose decay is added to the gradient), "sgd" or "lamb".
        learning_rate: The highest learning rate of the schedule.
        backbone_factor: The backbone's rate as a multiple of the head's, when it is trained.
        weight_decay: Decay of matrices; vectors (biases, norms) are never decayed.
        momentum: Momentum of sgd, first beta of the others.
        second_momentum: Second beta of adamw, adam and lamb.
        nesterov: Whether the momentum of sgd is Nesterov's; the others have none.
        schedule: "one-cycle" (up over `warmup`, then down to nearly zero), "one-cycle-torch" (the same with the ends of
            torch's OneCycleLR, and the momentum cycled from 0.05 above to 0.05 below and back), "cosine" or "constant".
        warmup: Share of all steps in which the rate rises.
        clip_norm: Largest gradient norm; 0 for no clipping.
    """

    name: Literal["adamw", "adam", "sgd", "lamb"] = "adamw"
    learning_rate: float = 1e-3
    backbone_factor: float = 1.0
    weight_decay: float = 1e-2
    momentum: float = 0.9
    second_momentum: float = 0.999
    nesterov: bool = True
    schedule: Literal["one-cycle", "one-cycle-torch", "cosine", "constant"] = "one-cycle"
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
        if self.schedule == "one-cycle-torch":  # which swings by 0.05 to both sides
            check_number("optimiser.momentum with schedule one-cycle-torch", self.momentum, 0.05, 0.9499)


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
        cached_maps: How cached feature maps are stored: as "float16", or in about half the space as "uint8", with a
            lowest value and a step for each channel of each image.
        standardise: With a frozen backbone, fit the head's feature scale to the training features before the first
            step; with a trained tail, to those of the first step. It has no effect on a backbone that is trained as a
            whole.
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
    cached_maps: Literal["float16", "uint8"] = "float16"
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
