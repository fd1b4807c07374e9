"""Examining image files in threads: can they be decoded, and which have the same bytes."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeAlias, TypeVar

from tagloom.data.images import open_image, read_image
from tagloom.data.packed.images import ImageFile
from tagloom.errors import ImageError

Digest: TypeAlias = bytes | None
T = TypeVar("T")

_CHUNK = 512
_SMALL_SIZE = (64, 64)  # decoding a JPEG to this size still reads every byte, in a fraction of the time


def in_threads(pool: ThreadPoolExecutor, work: Callable[[ImageFile], T], images: Sequence[ImageFile]) -> Iterator[T]:
    """Yield results in order. Images are submitted in chunks, since a million futures would fill the memory."""
    for start in range(0, len(images), _CHUNK):
        yield from pool.map(work, images[start : start + _CHUNK])


def examine(image: ImageFile, max_pixels: int) -> tuple[Digest, ImageError | None]:
    """Return the digest of an image, if it can be read, and what is wrong with it."""
    data = _read(image)
    try:
        open_image(image if data is None else data, max_pixels=max_pixels, at_least=_SMALL_SIZE)
    except ImageError as error:
        return _digest(data), error
    return _digest(data), None


def digest_of(image: ImageFile) -> Digest:
    """Return the digest of an image, if it can be read."""
    return _digest(_read(image))


def _read(image: ImageFile) -> bytes | None:
    """Read an image; None if it cannot be read, is empty or too large: such files would look alike."""
    with suppress(ImageError):
        return read_image(image)
    return None


def _digest(data: bytes | None) -> Digest:
    return None if data is None else hashlib.blake2b(data, digest_size=16).digest()
