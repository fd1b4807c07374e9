"""The arithmetic: time of each stage, disk, memory and money, and what holds each stage up.

A stage uses several resources. With GPUs they work side by side, so a stage takes as long as the slowest of them, its
bottleneck. Without, cores both decode and compute, so these two add up; the disk still works beside them.
"""

from dataclasses import dataclass
from typing import NamedTuple

from tagloom.checks import check_number, check_positive, check_whole
from tagloom.recipe.parts import MOST_HELD_OUT, DataSettings
from tagloom.sizing.profile import Profile

BACKWARD = 2.0  # a backward pass costs about twice a forward pass, so a training step three of them
FORWARD_SHARE = 1 / (1 + BACKWARD)
TABLE_BYTES_PER_IMAGE, TABLE_BYTES_PER_LABEL = 110, 5  # a path as a Python string; a column number and a flag
WEIGHT_COPIES = 5  # weights, gradients, two moments of AdamW, the moving average
BATCH = 64
COPIES_OF_LOGITS = 6  # targets, known, logits, their gradient, and what the loss keeps
CACHED_SHARE = 0.5  # of the memory that the system can use to keep features it has read


@dataclass(frozen=True)
class Size:
    """What is to be trained and tagged.

    Attributes:
        images: How many.
        labels: How many.
        epochs: Of the training.
        views: Views of each image whose features are cached; 2 with mirrors, as in the recipe "quick".
        labels_per_image: Known labels of an image, positive and negative.
        whole_network: Train the backbone too, on pictures that are decoded again in every epoch.
    """

    images: float
    labels: float
    epochs: float = 10
    views: int = 2
    labels_per_image: float = 10
    whole_network: bool = False

    def __post_init__(self) -> None:
        for name in ("images", "labels", "epochs", "labels_per_image"):
            check_positive(name, getattr(self, name))
        check_whole("views", self.views, 1)


@dataclass(frozen=True)
class Hardware:
    """What it is to run on.

    Attributes:
        machines: How many.
        gpus: GPUs of each; 0 to compute on their cores.
        cores: Cores of each; None for as many as the profile's machine has.
        gpu_rate: Images per second of one GPU through the backbone, as somebody measured; None for the profile's
            device. The head's speed is taken to scale alike.
        efficiency: What is left of the speed of several devices after they have waited for each other.
        price_per_hour: Of one machine; None to leave money out.
    """

    machines: int = 1
    gpus: int = 0
    cores: float | None = None
    gpu_rate: float | None = None
    efficiency: float = 0.9
    price_per_hour: float | None = None

    def __post_init__(self) -> None:
        check_whole("machines", self.machines, 1)
        check_whole("gpus", self.gpus, 0)
        check_number("efficiency", self.efficiency, 0.01, 1.0)
        for name in ("cores", "gpu_rate"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        if self.price_per_hour is not None:
            check_number("price per hour", self.price_per_hour, 0.0)


class Stage(NamedTuple):
    """A stage: how long each resource works for it, and how long it takes."""

    name: str
    resources: dict[str, float]
    seconds: float

    @property
    def bottleneck(self) -> str:
        """The resource that works longest."""
        return max(self.resources, key=lambda name: self.resources[name])


class Estimate(NamedTuple):
    """What comes out.

    Attributes:
        stages: In order.
        disk: Bytes by what they hold, all machines together.
        memory: Bytes by what they hold, in each machine.
        money: Of all machines, or None without a price.
    """

    stages: list[Stage]
    disk: dict[str, float]
    memory: dict[str, float]
    money: float | None

    @property
    def seconds(self) -> float:
        """Of all stages, one after the other."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def bottleneck(self) -> tuple[str, str]:
        """The longest stage, and what holds it up."""
        longest = max(self.stages, key=lambda stage: stage.seconds)
        return longest.name, longest.bottleneck


def estimate(profile: Profile, size: Size, hardware: Hardware) -> Estimate:
    """Work out what a size takes on some hardware."""
    speed = _Speed(profile, hardware)
    stages = [] if size.whole_network else [_extract(profile, size, speed)]
    stages += [_train(profile, size, hardware, speed), _predict(profile, size, speed)]
    hours = sum(stage.seconds for stage in stages) / 3600
    money = None if hardware.price_per_hour is None else hours * hardware.machines * hardware.price_per_hour
    return Estimate(stages, _disk(profile, size), _memory(profile, size), money)


class _Speed:
    """The whole hardware's rates: of the disks, the cores and the devices."""

    def __init__(self, profile: Profile, hardware: Hardware) -> None:
        cores = hardware.cores or profile.cores
        self.read = profile.read_rate * hardware.machines
        self.decode = profile.decode_rate * cores * hardware.machines
        self.has_gpus = hardware.gpus > 0
        if self.has_gpus:
            one = (hardware.gpu_rate or profile.extract_rate) / profile.extract_rate
            devices = hardware.gpus * hardware.machines
        else:
            one, devices = cores / profile.cores, hardware.machines
        self.devices = one * devices * (hardware.efficiency if devices > 1 else 1.0)

    def stage(self, name: str, disk: float, decoding: float, computing: float) -> Stage:
        """Give a stage of so many bytes from disk, images to decode and seconds of the profile's device."""
        on = "GPUs" if self.has_gpus else "cores, computing"
        resources = {"disk": disk / self.read, "cores, decoding": decoding / self.decode, on: computing / self.devices}
        if self.has_gpus:
            return Stage(name, resources, max(resources.values()))
        return Stage(name, resources, max(resources["disk"], resources["cores, decoding"] + resources[on]))


def _extract(profile: Profile, size: Size, speed: _Speed) -> Stage:
    pictures = size.images * size.views
    moved = pictures * (profile.image_bytes + profile.feature_bytes)  # read, and written as fast as read
    return speed.stage("read and extract", moved, pictures, pictures / profile.extract_rate)


def _train(profile: Profile, size: Size, hardware: Hardware, speed: _Speed) -> Stage:
    seen = size.images * size.epochs
    head = seen * (profile.head_seconds_per_image + profile.head_seconds_per_label * size.labels)
    if size.whole_network:
        backbone = seen * (1 + BACKWARD) / profile.extract_rate
        return speed.stage("train", seen * profile.image_bytes, seen, head + backbone)
    features = size.images * size.views * profile.feature_bytes
    fits = features <= CACHED_SHARE * profile.memory_bytes * hardware.machines
    return speed.stage("train", features if fits else seen * profile.feature_bytes, 0, head)


def _predict(profile: Profile, size: Size, speed: _Speed) -> Stage:
    head = profile.head_seconds_per_image + profile.head_seconds_per_label * size.labels
    computing = size.images * (1 / profile.extract_rate + FORWARD_SHARE * head)
    return speed.stage("predict as many", size.images * profile.image_bytes, size.images, computing)


def _disk(profile: Profile, size: Size) -> dict[str, float]:
    held_out = min(DataSettings.holdout * size.images, MOST_HELD_OUT)
    return {
        "images": size.images * profile.image_bytes,
        "features": 0.0 if size.whole_network else size.images * size.views * profile.feature_bytes,
        "scores of held-out images": 2 * held_out * size.labels * 4,
    }


def _memory(profile: Profile, size: Size) -> dict[str, float]:
    return {
        "label table": size.images * (TABLE_BYTES_PER_IMAGE + TABLE_BYTES_PER_LABEL * size.labels_per_image),
        "head": WEIGHT_COPIES * (profile.head_bytes + profile.head_bytes_per_label * size.labels),
        "batch": COPIES_OF_LOGITS * BATCH * size.labels * 4,
    }
