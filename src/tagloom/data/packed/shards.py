"""Reading pictures from Parquet shards by row, a row group at a time."""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from tagloom.data.packed.images import WINDOW_BYTES
from tagloom.data.packed.parquet_file import open_parquet
from tagloom.data.packed.places import absolute_place, is_address
from tagloom.errors import DataError, ImageError
from tagloom.wording import first_line

MAX_ROWS = 100_000_000
"""A few bytes of Parquet can repeat one row a billion times, and reading them all would take hours."""
MAX_GROUP_BYTES = 512 * 2**20
"""Of pictures in one row group, all of which are in memory together."""
HELD_BYTES = 2 * WINDOW_BYTES
"""How much of the row groups that were read last a process keeps: two windows, as a batch may lie in both. So training
reads each row group once per epoch and process."""
OPEN_FILES = 16
_ATTEMPTS = 3  # at an address, where a connection may be lost
_WAIT_SECONDS = 0.5


class Shard(NamedTuple):
    """One Parquet file: where it is, the rows of its row groups, and the bytes of pictures in each."""

    place: str
    group_rows: tuple[int, ...]
    group_bytes: tuple[int, ...]


class Shards:
    """The pictures of Parquet files, numbered through all of them.

    A process keeps the row groups that it read last, so that neighbours cost nothing; its threads share them. Another
    process, forked or started with a copy, opens the files for itself.
    """

    def __init__(self, shards: Sequence[Shard], column: str) -> None:
        self.column = column
        self._files = [shard.place for shard in shards]
        self.group_bytes = np.array([size for shard in shards for size in shard.group_bytes], np.int64)
        rows = [rows for shard in shards for rows in shard.group_rows]
        self.group_starts = np.concatenate([[0], np.cumsum(np.array(rows, np.int64))]).astype(np.int64)
        self._places = [(file, group) for file, shard in enumerate(shards) for group in range(len(shard.group_rows))]
        self._kept: _Kept | None = _Kept()

    def __getstate__(self) -> dict[str, Any]:
        files = [absolute_place(place) for place in self._files]  # the other process may work in another folder
        return {**self.__dict__, "_kept": None, "_files": files}

    def file_of(self, number: int) -> str:
        """Name the shard that holds an image."""
        return self._files[self._places[self._group_of(number)][0]]

    def read(self, number: int, name: str) -> bytes:
        """Read an image; see `ImageStore`."""
        group, kept = self._group_of(number), self._kept
        if kept is None or kept.process != os.getpid():
            kept = self._kept = _Kept()  # files and locks of another process must not be used
        # From here on this one alone: another thread that came first as well may replace `_kept` meanwhile.
        with kept.lock:
            found = kept.groups.get(group)
            if found is None:
                found = self._read_group(group, kept)
                kept.add(group, found)
            kept.groups.move_to_end(group)
        inside = number - int(self.group_starts[group])
        if inside >= len(found.pictures):
            raise ImageError(name, "broken", f"cannot be read from its shard ({found.problem}). Pack it again.")
        data = found.pictures[inside]
        if data is None:
            raise ImageError(name, "missing", "its row holds no bytes of a picture.")
        return data

    def _group_of(self, number: int) -> int:
        return int(np.searchsorted(self.group_starts, number, side="right")) - 1

    def _read_group(self, group: int, kept: "_Kept") -> "_Group":
        """Read the pictures of a row group; what cannot be read ends it early, with the reason."""
        file, index = self._places[group]
        place = self._files[file]
        attempts = _ATTEMPTS if is_address(place) else 1
        for attempt in range(attempts):
            found = kept.read(place, self.column, index)
            if not found.problem or attempt == attempts - 1:
                break
            kept.close(place)
            time.sleep(_WAIT_SECONDS * 2**attempt)
        return found


class _Group(NamedTuple):
    pictures: list[bytes | None]
    size: int
    problem: str


class _Kept:
    """What one process keeps: the last row groups, and open files."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.lock = threading.Lock()
        self.groups: OrderedDict[int, _Group] = OrderedDict()
        self._held = 0
        self._open: OrderedDict[str, tuple[Any, ExitStack]] = OrderedDict()

    def add(self, number: int, group: _Group) -> None:
        self.groups[number] = group
        self._held += group.size
        while self._held > HELD_BYTES and len(self.groups) > 1:
            self._held -= self.groups.popitem(last=False)[1].size

    def read(self, place: str, column: str, group: int) -> _Group:
        pictures: list[bytes | None] = []
        size = 0
        try:
            file = self._opened(place)
            # One row at a time: more could be any amount of memory, as one value can be repeated by reference.
            for batch in file.iter_batches(1, row_groups=[group], columns=[column], use_threads=False):
                cell = batch.column(0)[0].as_py()
                data = cell.get("bytes") if isinstance(cell, dict) else cell
                size += len(data or b"")
                if size > MAX_GROUP_BYTES:
                    raise DataError(f"its row group holds more than {MAX_GROUP_BYTES >> 20} MiB of pictures")
                pictures.append(data)
        except Exception as error:  # noqa: BLE001, pyarrow and fsspec raise many types
            return _Group(pictures, size, first_line(error) or type(error).__name__)
        return _Group(pictures, size, "")

    def close(self, place: str) -> None:
        if place in self._open:
            self._open.pop(place)[1].close()

    def _opened(self, place: str) -> Any:
        if place not in self._open:
            stack = ExitStack()
            buffer = 2**23 if is_address(place) else 2**20  # a row group at once where each request takes long
            self._open[place] = stack.enter_context(open_parquet(place, buffer_size=buffer)), stack
        self._open.move_to_end(place)
        while len(self._open) > OPEN_FILES:
            self._open.popitem(last=False)[1][1].close()
        return self._open[place][0]


def survey(place: str, file: Any, column: str | None) -> Shard:
    """Note the row groups of an open Parquet file from its footer.

    Args:
        place: Where it is.
        file: pyarrow's `ParquetFile`.
        column: The one with pictures; None if there is none.
    """
    groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
    rows = tuple(int(group.num_rows) for group in groups)
    if any(count < 0 for count in rows) or sum(rows) != file.metadata.num_rows or sum(rows) > MAX_ROWS:
        raise DataError(f"{place}: claims {file.metadata.num_rows:,} rows, of at most {MAX_ROWS:,}. Make it again.")
    return Shard(place, rows, tuple(0 if column is None else _picture_bytes(group, column) for group in groups))


def _picture_bytes(group: Any, column: str) -> int:
    leaves = (group.column(index) for index in range(group.num_columns))
    return sum(
        max(0, int(leaf.total_uncompressed_size))
        for leaf in leaves
        if leaf.path_in_schema in (column, f"{column}.bytes")
    )
