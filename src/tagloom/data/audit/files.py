"""Examining image files in threads: can they be decoded, and which have the same bytes."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeAlias, TypeVar

from tagloom.data.images import MAX_FILE_BYTES, open_image
from tagloom.data.regular_file import read_regular
from tagloom.errors import ImageError

Digest: TypeAlias = bytes | None
T = TypeVar("T")

_CHUNK = 512
_SMALL_SIZE = (64, 64)  # decoding a JPEG to this size still reads every byte, in a fraction of the time


def in_threads(pool: ThreadPoolExecutor, work: Callable[[str], T], paths: Sequence[str]) -> Iterator[T]:
    """Yield results in order. Paths are submitted in chunks, since a million futures would fill the memory."""
    for start in range(0, len(paths), _CHUNK):
        yield from pool.map(work, paths[start : start + _CHUNK])


def examine(path: str, max_pixels: int) -> tuple[Digest, ImageError | None]:
    """Return the digest of an image, if it can be read, and what is wrong with it."""
    data = _read(path)
    try:
        open_image(path if data is None else data, max_pixels=max_pixels, at_least=_SMALL_SIZE)
    except ImageError as error:
        return _digest(data), error
    return _digest(data), None


def digest_of(path: str) -> Digest:
    """Return the digest of a file, if it can be read."""
    return _digest(_read(path))


def _read(path: str) -> bytes | None:
    """Read a regular file, at most one byte beyond the cap; None if it cannot be read."""
    with suppress(OSError, ValueError):
        return read_regular(path, MAX_FILE_BYTES)
    return None


def _digest(data: bytes | None) -> Digest:
    """Hash a whole file with BLAKE2b; None if it is empty or was cut at the cap, since such files would look alike."""
    if not data or len(data) > MAX_FILE_BYTES:
        return None
    return hashlib.blake2b(data, digest_size=16).digest()
