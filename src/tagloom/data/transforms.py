"""From a decoded picture to the square that a backbone takes: RGB in, uint8 (size, size, 3) out.

`prepare` is what a tagger does to every picture, and is deterministic. `augment` is for training, and takes all its
randomness from the generator it is given. The backbone itself normalises.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from tagloom.recipe.pictures import MAX_MAGNITUDE, Augment, Preprocess

Pixels: TypeAlias = np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]
Box: TypeAlias = tuple[float, float, float, float]

_RESAMPLING = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
# Pillow first averages whole blocks of pixels down to this many times the target size, and only then interpolates:
# several times faster for large pictures, and at 3 the difference is invisible.
_REDUCING_GAP = 3.0
# The same margin for JPEGs, which can be decoded at a fraction of their size.
_DECODE_MARGIN = 2.0
_GREY = (128, 128, 128)


def sample_rng(seed: int, epoch: int, index: int) -> np.random.Generator:
    """Give one picture of one epoch its own generator, so that the number and order of workers change nothing.

    >>> int(sample_rng(0, 3, 7).integers(100)) == int(sample_rng(0, 3, 7).integers(100))
    True
    """
    return np.random.default_rng(np.random.SeedSequence([seed, epoch, index]))


def decode_size(preprocess: Preprocess, augment: Augment | None = None) -> tuple[int, int]:
    """Return the width and height that are enough for `open_image(at_least=...)` without losing sharpness."""
    kept = preprocess.crop_share if preprocess.fit == "crop" else 1.0
    if augment is not None and augment.crop_scale is not None:
        kept = math.sqrt(augment.crop_scale[0])
    side = math.ceil(_DECODE_MARGIN * preprocess.size / kept)
    return side, side


def prepare(image: Image.Image, preprocess: Preprocess) -> Pixels:
    """Fit a picture into the square, the same way every time.

    Args:
        image: RGB, of any size.
        preprocess: The size of the square and how to fit the picture into it.

    Returns:
        uint8 (size, size, 3).
    """
    return np.asarray(_resize(image, seen_box(image.size, preprocess), preprocess))


def augment(image: Image.Image, preprocess: Preprocess, augment: Augment, rng: np.random.Generator) -> Pixels:
    """Fit a picture into the square for training: random crop, mirror, RandAugment, cutout, in this order.

    Args:
        image: RGB, of any size.
        preprocess: The size of the square and how to fit the picture into it; `crop_scale` replaces `fit`.
        augment: What may be done to the picture.
        rng: The only source of randomness; see `sample_rng`.

    Returns:
        uint8 (size, size, 3).
    """
    box = seen_box(image.size, preprocess)
    if augment.crop_scale is not None:
        box = _random_box(image.size, augment.crop_scale, rng)
    square = _resize(image, box, preprocess)
    if rng.random() < augment.flip:
        square = ImageOps.mirror(square)
    for _ in range(augment.randaugment_ops):
        operation = _OPERATIONS[int(rng.integers(len(_OPERATIONS)))]
        # Half of all operations go one way and half the other: left or right, darker or brighter.
        strength = augment.randaugment_magnitude / MAX_MAGNITUDE
        square = operation(square, strength if rng.random() < 0.5 else -strength)
    pixels = np.array(square)
    if augment.cutout > 0:
        _blot_out(pixels, augment.cutout, rng)
    return pixels


def _resize(image: Image.Image, box: Box, preprocess: Preprocess) -> Image.Image:
    side = (preprocess.size, preprocess.size)
    return image.resize(side, _RESAMPLING[preprocess.interpolation], box=box, reducing_gap=_REDUCING_GAP)


def seen_box(size: tuple[int, int], preprocess: Preprocess) -> Box:
    """Return the part of a picture of this width and height that fills the square: left, top, right, bottom.

    Resizing to it is resizing and then cropping the middle, in one step.
    """
    width, height = size
    if preprocess.fit == "squeeze":
        return 0.0, 0.0, float(width), float(height)
    side = preprocess.crop_share * min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def _random_box(size: tuple[int, int], scale: tuple[float, float], rng: np.random.Generator) -> Box:
    """Draw a box of a random share of the area, up to a third wider or higher than the picture's own proportions."""
    share = rng.uniform(*scale)
    stretch = math.exp(rng.uniform(-0.5, 0.5) * math.log(4 / 3))
    width = min(1.0, math.sqrt(share) * stretch) * size[0]
    height = min(1.0, math.sqrt(share) / stretch) * size[1]
    left, top = rng.uniform(0, size[0] - width), rng.uniform(0, size[1] - height)
    return left, top, min(left + width, size[0]), min(top + height, size[1])


def _blot_out(pixels: Pixels, share: float, rng: np.random.Generator) -> None:
    """Fill a square of `pixels` with one random colour. Its centre is anywhere, so part of it may fall outside."""
    side = pixels.shape[0]
    half = share * side / 2
    centre_y, centre_x = rng.uniform(0, side, 2)
    rows = slice(max(0, round(centre_y - half)), max(0, round(centre_y + half)))
    columns = slice(max(0, round(centre_x - half)), max(0, round(centre_x + half)))
    pixels[rows, columns] = rng.integers(0, 256, 3, dtype=np.uint8)


# RandAugment (Cubuk et al. 2020, section 3), with AutoAugment's ranges. An operation takes an RGB square and a strength
# from -1 to 1, whose sign is the direction; operations without a direction use only its absolute value.
_Operation: TypeAlias = Callable[[Image.Image, float], Image.Image]


def _affine(image: Image.Image, *matrix: float) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=_GREY)


def _shear_x(image: Image.Image, strength: float) -> Image.Image:
    slope = 0.3 * strength
    return _affine(image, 1, slope, -slope * image.height / 2, 0, 1, 0)


def _shear_y(image: Image.Image, strength: float) -> Image.Image:
    slope = 0.3 * strength
    return _affine(image, 1, 0, 0, slope, 1, -slope * image.width / 2)


def _translate_x(image: Image.Image, strength: float) -> Image.Image:
    return _affine(image, 1, 0, 0.45 * strength * image.width, 0, 1, 0)


def _translate_y(image: Image.Image, strength: float) -> Image.Image:
    return _affine(image, 1, 0, 0, 0, 1, 0.45 * strength * image.height)


def _rotate(image: Image.Image, strength: float) -> Image.Image:
    return image.rotate(30 * strength, Image.Resampling.BILINEAR, fillcolor=_GREY)


def _solarize(image: Image.Image, strength: float) -> Image.Image:
    return ImageOps.solarize(image, round(256 * (1 - abs(strength))))


def _posterize(image: Image.Image, strength: float) -> Image.Image:
    return ImageOps.posterize(image, 8 - round(4 * abs(strength)))


def _enhancer(kind: Callable[[Image.Image], ImageEnhance._Enhance]) -> _Operation:
    return lambda image, strength: kind(image).enhance(1 + 0.9 * strength)


_OPERATIONS: tuple[_Operation, ...] = (
    lambda image, _: image,
    lambda image, _: ImageOps.autocontrast(image),
    lambda image, _: ImageOps.equalize(image),
    _rotate,
    _solarize,
    _posterize,
    _enhancer(ImageEnhance.Color),
    _enhancer(ImageEnhance.Contrast),
    _enhancer(ImageEnhance.Brightness),
    _enhancer(ImageEnhance.Sharpness),
    _shear_x,
    _shear_y,
    _translate_x,
    _translate_y,
)
