"""Arrays for intermediate results: small ones in memory, large ones in a file that vanishes with them.

The scores of 100,000 images for 9,600 classes take 3.8 GB. In a file they take none of the memory that other programs
need: the system keeps as much of the file in memory as fits.
"""

import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tagloom.errors import DataError

Kind = TypeVar("Kind", bound=np.generic)
IN_MEMORY = 1 << 30
"""Larger arrays than this many bytes are kept in a file."""


def scratch_array(shape: tuple[int, int], dtype: type[Kind], folder: Path) -> npt.NDArray[Kind]:
    """Make an array of any content. Its file, if it needs one, is in `folder` and goes when nobody uses the array."""
    size = shape[0] * shape[1] * np.dtype(dtype).itemsize
    if size <= IN_MEMORY:
        return np.empty(shape, dtype)
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix="scratch-") as file:
            if hasattr(os, "posix_fallocate"):  # a full disk is an error here; later it would kill the process
                os.posix_fallocate(file.fileno(), 0, size)
            return np.memmap(file, dtype, "w+", shape=shape)
    except OSError as error:
        raise DataError(
            f"{folder}: {size / 1e9:.1f} GB are needed for the scores of {shape[0]:,} images for {shape[1]:,} classes "
            f"({error}). Make room there, or use fewer images."
        ) from error


def scratch_like(array: npt.NDArray[Any], dtype: type[Kind]) -> npt.NDArray[Kind]:
    """Make an array of the same shape: in a file next to the other's, where that is in a file."""
    place = getattr(array, "filename", None)
    if isinstance(array, np.memmap) and place is not None:
        return scratch_array((array.shape[0], array.shape[1]), dtype, Path(place).parent)
    return np.empty(array.shape, dtype)
