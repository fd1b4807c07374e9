"""A shard: the summaries of some images in one file of the feature cache.

The file is a safetensors file. Its tensors are named "0", "1", … in the order in which a summary is stored (`stored`),
(images, …) each, and the metadata "keys" names the images by content. The file's name ends with the checksum of its
bytes. It is written under another name, flushed to disk and renamed, so it is whole or absent; a reader that has mapped
it can read on after it was removed.
"""

import errno
import json
import math
import mmap
import sys
import uuid
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.cache_folder import is_intact, name_with_checksum
from tagloom.errors import TagloomError
from tagloom.files import whole_file
from tagloom.training.features.stored import Stored

SUFFIX = ".safetensors"
DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "U8": np.dtype("u1")}
ALIGNMENT = 64
MAX_HEADER_BYTES = 64 << 20

Form = tuple[tuple[int, ...], ...]
"""The shape of each tensor of one image's summary."""


class DamagedShard(Exception):  # noqa: N818  it never leaves the cache
    """What is wrong with a shard; it is dropped, and its images are extracted again."""


class TensorRecord(NamedTuple):
    """One tensor in a file: its type, its shape (images, …) and its first byte."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int


@dataclass(frozen=True)
class Shard:
    """A shard whose header was read and whose size is right.

    Attributes:
        path: The file.
        keys: The images by content, in order.
        tensors: Where each tensor is.
        bytes: Size of the file.
    """

    path: Path
    keys: tuple[str, ...]
    tensors: tuple[TensorRecord, ...]
    bytes: int

    @property
    def form(self) -> Form:
        """The shapes of one image's summary."""
        return tuple(tensor.shape[1:] for tensor in self.tensors)

    def open(self) -> Stored:
        """Check every byte and map the arrays, (images, …) each.

        Raises:
            DamagedShard: If the file is not what was written.
            FileNotFoundError: If it was removed meanwhile.
        """
        try:
            intact = is_intact(self.path)
        except OSError as error:
            raise unreadable(self.path, error) from error
        if not intact:
            raise DamagedShard("the checksum does not match")
        return self.map()

    def map(self) -> Stored:
        """Map the arrays without checking them."""
        mapped = map_file(self.path, self.bytes)
        return [
            np.frombuffer(mapped, dtype, math.prod(shape), start).reshape(shape) for dtype, shape, start in self.tensors
        ]

    def remove(self) -> None:
        """Remove the file, if that is possible."""
        with suppress(OSError):
            self.path.unlink()


def write_shard(folder: Path, keys: Sequence[str], batches: Sequence[Stored]) -> Shard:
    """Write the summaries of some images.

    Args:
        folder: An existing folder.
        keys: The images by content.
        batches: The summaries in parts, each as it is stored (`as_stored`). They are written one by one: joining them
            would take their memory twice.
    """
    parts = [[np.ascontiguousarray(part) for part in tensor] for tensor in zip(*batches, strict=True)]
    # Larger values first, as the format wants it, so that every tensor is aligned.
    order = sorted(range(len(parts)), key=lambda number: -parts[number][0].itemsize)
    ends = list(accumulate(sum(part.nbytes for part in parts[number]) for number in order))
    header = {"__metadata__": {"keys": " ".join(keys)}} | {
        str(number): {
            "dtype": _dtype_name(parts[number][0].dtype),
            "shape": [sum(map(len, parts[number])), *parts[number][0].shape[1:]],
            "data_offsets": [first, end],
        }
        for number, first, end in zip(order, [0, *ends], ends, strict=False)
    }
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    blocks = [len(text).to_bytes(8, "little"), text, *(_bytes(part) for number in order for part in parts[number])]
    checksum = 0
    for block in blocks:
        checksum = zlib.crc32(block, checksum)
    path = folder / name_with_checksum(uuid.uuid4().hex, checksum, SUFFIX)
    with whole_file(path) as partial, partial.open("wb") as file:
        file.writelines(blocks)
    return _shard(path, text, 8 + len(text) + ends[-1])


def read_shard(path: Path) -> Shard:
    """Read the header of a shard, and compare the file's size with it.

    Raises:
        DamagedShard: If the file cannot be a whole shard.
        FileNotFoundError: If it was removed meanwhile.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length <= min(size, MAX_HEADER_BYTES):
                raise DamagedShard("it has no header")
            return _shard(path, file.read(length), size)
    except OSError as error:
        raise unreadable(path, error) from error


def map_file(path: Path, size: int) -> mmap.mmap:
    """Map a whole file of a known size for reading."""
    try:
        with path.open("rb") as file:
            if path.stat().st_size != size:
                raise DamagedShard(f"its size is not {size:,} bytes")
            return _map(file.fileno())
    except OSError as error:
        raise unreadable(path, error) from error


def _map(file: int) -> mmap.mmap:
    if sys.version_info >= (3, 13):
        return mmap.mmap(file, 0, access=mmap.ACCESS_READ, trackfd=False)
    try:  # older versions keep a file open for every mapping
        return mmap.mmap(file, 0, access=mmap.ACCESS_READ)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        _allow_more_open_files()
        return mmap.mmap(file, 0, access=mmap.ACCESS_READ)


def _allow_more_open_files() -> None:
    """Raise the process's limit of open files as far as the system lets us."""
    with suppress(ImportError, OSError, ValueError):  # no such limit on Windows
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def unreadable(path: Path, error: OSError) -> Exception:
    """Give the error to raise for a file that cannot be read: only the disk's own errors mean that it is damaged."""
    if isinstance(error, FileNotFoundError):
        return error
    if error.errno == errno.EIO:
        return DamagedShard("the disk cannot read it")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return TagloomError(
            f"{path.parent}: too many shards to open at once ({error.strerror}). Allow more open files: ulimit -n 8192"
        )
    return TagloomError(
        f"{path}: cannot be read ({error}). Allow it, or name another folder with --cache or TAGLOOM_CACHE."
    )


def _shard(path: Path, text: bytes, size: int) -> Shard:
    """Make a shard of a header, and check that header and size agree."""
    try:
        header = json.loads(text)
        keys = tuple(header.pop("__metadata__")["keys"].split())
        first = 8 + len(text)
        records = {
            int(name): TensorRecord(DTYPES[entry["dtype"]], tuple(entry["shape"]), first + entry["data_offsets"][0])
            for name, entry in header.items()
        }
        tensors = tuple(records[number] for number in range(len(records)))
        end = first + sum(tensor.dtype.itemsize * math.prod(tensor.shape) for tensor in tensors)
        whole = all(isinstance(side, int) and side >= 0 for tensor in tensors for side in tensor.shape)
        sound = tensors and whole and end == size and all(tensor.shape[0] == len(keys) for tensor in tensors)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise DamagedShard("its header cannot be read") from error
    if not sound:
        raise DamagedShard("its header and its size do not agree")
    return Shard(path, keys, tensors, size)


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return next(name for name, known in DTYPES.items() if known == dtype)


def _bytes(array: NDArray[Any]) -> bytes | memoryview:
    return array.reshape(-1).view(np.uint8).data
