"""Reading images x classes block by block, so that 40,000 x 9,600 scores are never copied as a whole.

A block is dense and contiguous along what is measured: class by class for rankings, image by image for the top k.
Blocks run in threads, because numpy releases Python's lock while it sorts and copies.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from tagloom.cores import usable_cores
from tagloom.errors import DataError


class Sparse(Protocol):
    """The part of scipy's sparse arrays and matrices that is used here, so that accepting one needs no scipy."""

    @property
    def shape(self) -> Any:
        """Images, classes."""

    def tocsc(self) -> Any:
        """The same, quick to slice by class."""

    def tocsr(self) -> Any:
        """The same, quick to slice by image."""


Array: TypeAlias = npt.NDArray[Any]
Targets: TypeAlias = Array | Sparse
Known: TypeAlias = Array | Sparse | None
T = TypeVar("T")
F = TypeVar("F", bound=Array | Sparse | None)

# 16 MB of float32 per thread: small next to the scores, large enough that the time spent in Python does not matter.
BLOCK_ELEMENTS = 4_000_000
# Rows transposed at a time, so that a tile stays in the cache: three times faster than numpy's transposed copy.
TILE_ROWS = 512


def as_arrays(scores: Any, targets: Any, known: Any) -> tuple[Array, Targets, Known]:
    """Turn lists and tensors into arrays. Arrays and memory maps are not copied, what is sparse stays sparse."""
    flags = [each if each is None or hasattr(each, "tocsr") else np.asarray(each) for each in (targets, known)]
    return np.asarray(scores), flags[0], flags[1]


def check_shapes(scores: Array, targets: Targets, known: Known) -> tuple[int, int]:
    """Check that scores, targets and known have the same shape, and give the number of images and of classes."""
    if scores.ndim != 2 or scores.dtype.kind not in "fiub":
        raise DataError(f"scores are {scores.dtype} of shape {scores.shape}: give numbers, images x classes.")
    for name, other in (("targets", targets), ("known", known)):
        if other is not None and other.shape != scores.shape:
            raise DataError(
                f"scores are {scores.shape} but {name} are {other.shape}: both must be images x classes. Check that"
                " they come from the same table and the same tagger."
            )
    if 0 in scores.shape:
        raise DataError(f"scores are {scores.shape}: there is nothing to measure. Check which images were selected.")
    images, classes = scores.shape
    return images, classes


def working_dtype(scores: Array) -> npt.DTypeLike:
    """Give float32 for float16 and float32 scores, which it holds exactly, and float64 for all others."""
    return np.float32 if scores.dtype in (np.float16, np.float32) else np.float64


def in_blocks(measure: Callable[[int, int], T], length: int, width: int) -> Iterator[T]:
    """Run `measure(start, stop)` over 0..length in threads; results come in order. A line has `width` numbers."""
    step = max(1, BLOCK_ELEMENTS // width)
    with ThreadPoolExecutor(min(usable_cores(), 8)) as threads:
        yield from threads.map(lambda start: measure(start, min(start + step, length)), range(0, length, step))


def scores_by_class(scores: Array, start: int, stop: int) -> Array:
    """Copy the scores of some classes, `(classes, n)` in the working dtype."""
    block = _transposed(scores, start, stop, working_dtype(scores))
    _refuse_nan(block, lambda line, index: (index, start + line))
    return block


def scores_by_image(scores: Array, start: int, stop: int) -> Array:
    """Copy the scores of some images, `(images, N)` in the working dtype."""
    block = scores[start:stop].astype(working_dtype(scores), order="C")
    _refuse_nan(block, lambda line, index: (start + line, index))
    return block


def sliced_by_class(flags: F) -> F:
    """Give targets or known in the form that is quick to slice by class."""
    return flags if flags is None or isinstance(flags, np.ndarray) else flags.tocsc()


def sliced_by_image(flags: F) -> F:
    """Give targets or known in the form that is quick to slice by image."""
    return flags if flags is None or isinstance(flags, np.ndarray) else flags.tocsr()


def flags_by_class(flags: Targets, start: int, stop: int) -> Array:
    """Give targets or known of some classes, bool `(classes, n)`."""
    if isinstance(flags, np.ndarray):
        return _as_flags(_transposed(flags, start, stop, flags.dtype))
    return _as_flags(flags.tocsc()[:, start:stop].toarray(order="F").T)  # free if it already is csc


def flags_by_image(flags: Targets, rows: slice) -> Array:
    """Give targets or known of some images, bool `(images, N)`."""
    if isinstance(flags, np.ndarray):
        return _as_flags(flags[rows])
    return _as_flags(flags.tocsr()[rows].toarray())  # free if it already is csr


def _transposed(matrix: Array, start: int, stop: int, dtype: npt.DTypeLike) -> Array:
    block = np.empty((stop - start, len(matrix)), dtype)
    for row in range(0, len(matrix), TILE_ROWS):
        block[:, row : row + TILE_ROWS] = matrix[row : row + TILE_ROWS, start:stop].T
    return block


def _refuse_nan(block: Array, locate: Callable[[int, int], tuple[int, int]]) -> None:
    lines = np.isnan(block.max(axis=1)).nonzero()[0]  # the maximum of a line with a NaN is NaN, and takes no memory
    if len(lines):
        image, column = locate(int(lines[0]), int(np.isnan(block[lines[0]]).argmax()))
        raise DataError(
            f"the score in row {image}, class {column} is not a number (NaN). The tagger or the image behind it is"
            " broken: look at that row, and leave images that cannot be scored out."
        )


def _as_flags(block: Array) -> Array:
    if block.dtype == bool:
        return block
    flags = block.astype(bool)
    if not np.array_equal(flags, block):
        odd = block[flags != block].flat[0]
        raise DataError(f"targets and known hold 0 and 1, but {odd} was found. Mark unknown pairs in `known` instead.")
    return flags
