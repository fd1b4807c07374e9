"""Heat over a picture: warm where a label comes from, the picture in grey elsewhere."""

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

# From dark violet over red to pale yellow: lightness only grows, so it reads the same in grey and to colour-blind eyes.
_ANCHORS = np.array([[45, 10, 90], [120, 28, 109], [187, 55, 84], [237, 105, 37], [251, 180, 26], [252, 255, 164]])
_STRONGEST = 0.8  # the share of colour at the hottest place: what is there still shows
_JPEG_QUALITY = 82


def colours(heat: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Turn heat from 0 to 1, (H, W), into colours (H, W, 3)."""
    places = np.clip(heat, 0, 1) * (len(_ANCHORS) - 1)
    channels = [np.interp(places, np.arange(len(_ANCHORS)), _ANCHORS[:, channel]) for channel in range(3)]
    return np.stack(channels, axis=-1).astype(np.uint8)


def overlay(picture: Image.Image, heat: NDArray[np.float32]) -> Image.Image:
    """Lay heat (H, W) over a picture of the same size."""
    strength = (_STRONGEST * np.sqrt(np.clip(heat, 0, 1)))[..., None]
    grey = np.asarray(picture.convert("L"), np.float32)[..., None]
    dim = 0.35 * np.asarray(picture.convert("RGB"), np.float32) + 0.65 * grey
    return Image.fromarray((dim * (1 - strength) + colours(heat) * strength).astype(np.uint8))


def jpeg_address(picture: Image.Image, quality: int = _JPEG_QUALITY) -> str:
    """Write a picture as a data: address, to put into a page."""
    stream = io.BytesIO()
    picture.convert("RGB").save(stream, "JPEG", quality=quality)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii")
