"""Shards as they were before they were single files: one `.npy` file per tensor, and a `.keys` file.

What such a cache holds is right, so it is still read. It has no checksums. An image whose summary is all zeros, which
is what a power cut leaves behind, counts as damage.
"""

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tagloom.training.features.shard import DamagedShard, Form, TensorRecord, map_file, unreadable
from tagloom.training.features.stored import Stored

KEYS_SUFFIX = ".keys"
DTYPES = (np.dtype("<f4"), np.dtype("<f2"))
MAX_KEYS_BYTES = 64 << 20
ROWS_AT_ONCE = 64


@dataclass(frozen=True)
class OldShard:
    """A shard of several files, whose headers were read and whose sizes are right.

    Attributes:
        path: The `.keys` file.
        keys: The images by content, in order.
        arrays: Each array's file and record.
    """

    path: Path
    keys: tuple[str, ...]
    arrays: tuple[tuple[Path, TensorRecord], ...]

    @property
    def form(self) -> Form:
        """The shapes of one image's summary."""
        return tuple(record.shape[1:] for _, record in self.arrays)

    def open(self) -> Stored:
        """Map the arrays, (images, …) each, and look for images without values; see `Shard.open`."""
        arrays = self.map()
        for first in range(0, len(self.keys), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            values = [array[rows].reshape(len(array[rows]), -1).any(axis=1) for array in arrays]
            if not np.logical_or.reduce(values).all():
                raise DamagedShard("an image has no values")
        return arrays

    def map(self) -> Stored:
        """Map the arrays without checking them."""
        return [
            np.frombuffer(map_file(path, _end(record)), record.dtype, math.prod(record.shape), record.start).reshape(
                record.shape
            )
            for path, record in self.arrays
        ]

    def remove(self) -> None:
        """Remove the files, if that is possible; without its keys it is no shard any more."""
        with suppress(OSError):
            for path in (self.path, *(path for path, _ in self.arrays)):
                path.unlink(missing_ok=True)


def read_old_shard(path: Path) -> OldShard:
    """Read the keys of a shard and the headers of its arrays, and compare the files' sizes with them.

    Raises:
        DamagedShard: If the files cannot be a whole shard.
        FileNotFoundError: If one was removed meanwhile.
    """
    try:
        if path.stat().st_size > MAX_KEYS_BYTES:
            raise DamagedShard("it has no keys")
        keys = tuple(path.read_text(encoding="ascii").split())
        # By number: in the order of the names, tensor 10 would come before tensor 2.
        numbered = {
            int(match[1]): found
            for found in path.parent.glob(f"{path.stem}.*.npy")
            if (match := re.fullmatch(rf"{re.escape(path.stem)}\.(\d+)\.npy", found.name))
        }
        arrays = tuple((numbered[number], _record(numbered[number])) for number in range(len(numbered)))
    except OSError as error:
        raise unreadable(path, error) from error
    except (UnicodeDecodeError, KeyError) as error:
        raise DamagedShard("its keys cannot be read, or an array is missing") from error
    if not keys or not arrays or any(record.shape[0] != len(keys) for _, record in arrays):
        raise DamagedShard("its keys and its arrays do not agree")
    return OldShard(path, keys, arrays)


def _record(path: Path) -> TensorRecord:
    """Read an array's header, and compare the file's size with it."""
    with path.open("rb") as file:
        try:
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            shape, by_columns, dtype = read[np.lib.format.read_magic(file)](file)
        except OSError:
            raise
        except Exception as error:  # headers are Python literals, whose parser may raise anything
            raise DamagedShard("the header of an array cannot be read") from error
        record = TensorRecord(dtype, shape, file.tell())
    if by_columns or dtype not in DTYPES or len(shape) < 1 or path.stat().st_size != _end(record):
        raise DamagedShard("the size of an array is wrong")
    return record


def _end(record: TensorRecord) -> int:
    return record.start + record.dtype.itemsize * math.prod(record.shape)
