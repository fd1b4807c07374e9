"""How pictures are prepared, and how training augments them: two parts of a recipe."""

from dataclasses import dataclass
from typing import Literal

from tagloom.checks import check_choice, check_number, check_whole
from tagloom.errors import RecipeError
from tagloom.wording import shown

MAX_SIZE = 4096
MAX_RANDAUGMENT_OPS = 16
MAX_MAGNITUDE = 10
MAX_REPEATS = 16
FITS = ("squeeze", "crop")
INTERPOLATIONS = ("bilinear", "bicubic")


@dataclass(frozen=True)
class Preprocess:
    """How a picture becomes a square; stored with the weights in `tagger.json`."""

    size: int = 224
    """Side of the square, in pixels."""
    fit: Literal["squeeze", "crop"] = "squeeze"
    """`squeeze` the whole picture into the square, or `crop` its middle and keep its proportions."""
    crop_share: float = 0.875
    """For `crop`: the side of the square as a share of the picture's shorter side."""
    interpolation: Literal["bilinear", "bicubic"] = "bicubic"
    """How pixels are interpolated."""

    def __post_init__(self) -> None:
        check_whole("size", self.size, 32, MAX_SIZE)
        check_choice("fit", self.fit, FITS)
        check_number("crop_share", self.crop_share, 0.05, 1.0)
        check_choice("interpolation", self.interpolation, INTERPOLATIONS)


@dataclass(frozen=True)
class Augment:
    """How training augments pictures; the defaults do nothing."""

    flip: float = 0.0
    """Probability of mirroring left and right."""
    randaugment_ops: int = 0
    """How many RandAugment operations are applied in turn (N in the paper)."""
    randaugment_magnitude: int = 9
    """Their strength, from 0 to 10 (M in the paper)."""
    cutout: float = 0.0
    """Side of the square that is covered, as a share of the picture's side; published recipes use 0.5."""
    crop_scale: tuple[float, float] | None = None
    """Smallest and largest share of the picture's area that a random crop keeps; null for no random crop."""
    repeats: int = 1
    """How often each picture is in a batch, augmented differently each time; an epoch then sees fewer pictures."""
    mixup: float = 0.0
    """α of Beta(α, α), from which the blending of two pictures of a batch is drawn; 0 for no blending."""
    cutmix: float = 0.0
    """α of Beta(α, α), from which the area pasted from another picture is drawn; with `mixup`, each half the time."""

    def __post_init__(self) -> None:
        check_number("flip", self.flip, 0.0, 1.0)
        check_whole("randaugment_ops", self.randaugment_ops, 0, MAX_RANDAUGMENT_OPS)
        check_whole("randaugment_magnitude", self.randaugment_magnitude, 0, MAX_MAGNITUDE)
        check_number("cutout", self.cutout, 0.0, 1.0)
        check_whole("repeats", self.repeats, 1, MAX_REPEATS)
        check_number("mixup", self.mixup, 0.0, 100.0)
        check_number("cutmix", self.cutmix, 0.0, 100.0)
        if self.crop_scale is not None:
            if not isinstance(self.crop_scale, tuple | list) or len(self.crop_scale) != 2:
                raise RecipeError(f"crop_scale must be two shares or null, found {shown(self.crop_scale)}.")
            low, high = self.crop_scale
            check_number("crop_scale", low, 0.01, 1.0)
            check_number("crop_scale", high, low, 1.0)
            object.__setattr__(self, "crop_scale", (low, high))  # YAML and JSON bring a list
