"""How a summary is stored: small tensors exactly, feature maps in half precision or in 8 bits.

In 8 bits a map (images, …) is three arrays: codes from 0 to 255, and for every channel of every image the lowest value
and the step from one code to the next, so that value = low + code · step. An image's codes depend on that image alone.
Arrays of codes are known by their type, so a shard needs no other mark.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Maps = Literal["float16", "uint8"]
Stored = list[NDArray[Any]]
"""The arrays of a summary as they are on disk, (images, …) each."""

FLOAT32_VALUES = 8192  # summaries up to this many values are kept exactly
CODES = np.uint8
MOST = float(np.finfo(np.float16).max)


def as_stored(summary: Sequence[NDArray[np.floating]], maps: Maps = "float16", channels: int = 1) -> Stored:
    """Give the tensors of a summary, (images, …) each, as they are stored.

    Args:
        summary: The tensors.
        maps: How tensors are stored that are too large to be stored exactly.
        channels: The axis of a map's channels.
    """
    stored: Stored = []
    for tensor in summary:
        if tensor.size <= FLOAT32_VALUES * len(tensor):
            stored.append(tensor.astype("<f4", copy=False))
        elif maps == "uint8" and tensor.ndim > 2:
            stored.extend(_encoded(tensor, channels % tensor.ndim))
        else:
            stored.append(np.clip(tensor, -MOST, MOST).astype("<f2", copy=False))  # beyond that it would be infinite
    return stored


def as_read(stored: Stored) -> list[NDArray[np.floating]]:
    """Give the tensors of a summary from their arrays."""
    arrays, summary = iter(stored), []
    for array in arrays:
        if array.dtype == CODES:
            low, step = next(arrays), next(arrays)
            values = np.multiply(array, step, dtype=np.float32)
            values += low
            summary.append(values)
        else:
            summary.append(array)
    return summary


def _encoded(tensor: NDArray[np.floating], channels: int) -> Stored:
    """Give codes (images, …), and low and step with a size of 1 on every axis but those of images and channels.

    No value is off by more than half a step: low is rounded down and step up.
    """
    values = np.clip(tensor, -MOST, MOST, dtype=np.float32)
    positions = tuple(axis for axis in range(1, tensor.ndim) if axis != channels)
    low = _rounded(values.min(axis=positions, keepdims=True), -np.inf)
    step = _rounded((values.max(axis=positions, keepdims=True) - low) / 255, np.inf)
    values -= low
    values /= np.where(step == 0, 1, step)  # a channel that is the same everywhere
    return [np.rint(values, out=values).astype(CODES), low, step]


def _rounded(values: NDArray[np.float32], towards: float) -> NDArray[np.float16]:
    """Round to half precision, never away from `towards`."""
    rounded = values.astype("<f2")
    wrong = rounded > values if towards < 0 else rounded < values
    rounded[wrong] = np.nextafter(rounded[wrong], np.float16(towards))
    return rounded
