"""Text in Parquet files of strangers, read in memory that the file cannot choose.

Parquet stores a text once, and refers to it from any number of rows: a file of 1 kB can stand for gigabytes. So text is
read as the file stores it, each once and numbered, and is checked before rows are made of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom.data.packed.parquet_file import open_parquet
from tagloom.data.packed.places import is_address
from tagloom.errors import DataError
from tagloom.wording import shown

MAX_CELL_BYTES = 2**20
"""Of one text: more than a path or the labels of an image take."""
MAX_DIFFERENT_BYTES = 256 * 2**20
"""Of different texts in one row group, which are in memory together."""
MAX_TEXT_BYTES = 128 * 2**20
"""Of text in all rows, if the file is small."""
MOST_GROWTH = 100
"""How many times its size a larger file may grow to in text."""
MAX_UNPACKED_BYTES = 32 * 2**20
"""Of a column in one row group, if it is small while it is packed. Arrow holds a page four times while it reads it."""
MAX_LIST_ENTRIES = 2**25
"""In the lists of a column of one row group, where they take less than a byte for every `MOST_GROWTH` entries."""
_ROWS = 1024  # that are made of text at once
_MOST_ROWS, _MOST_CELLS = 2**16, 2**22  # that are read at once
_UNSHARED = frozenset(
    {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"}
)  # encodings that Arrow cannot read as numbered text


@dataclass
class TextFile:
    """An open Parquet file whose text is read numbered."""

    place: str
    file: Any
    """pyarrow's `ParquetFile`."""
    size: int
    """Of the file, in bytes."""
    numbered: bool
    """Whether all text is; otherwise it is read row by row."""
    read: int = field(default=0, init=False)
    """How many bytes of text the rows had so far."""

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Give Arrow's record batches of some columns, none of which crosses row groups.

        Raises:
            DataError: If their text would take more memory than that of any table.
        """
        for group in range(self.file.metadata.num_row_groups):  # pyarrow cannot join the numbering of texts in lists
            rows = _rows_at_once(self.file.metadata.row_group(group), columns) if self.numbered else 1
            for batch in self.file.iter_batches(rows, row_groups=[group], columns=list(columns), use_threads=False):
                self._check(batch)
                yield from (batch.slice(start, _ROWS) for start in range(0, len(batch), _ROWS))

    def _check(self, batch: Any) -> None:
        texts = [text for column in batch.columns for text in _texts(column)]
        if (
            sum((text.dictionary if hasattr(text, "dictionary") else text).nbytes for text in texts)
            > MAX_DIFFERENT_BYTES
        ):
            raise DataError(
                f"{self.place}: a row group has more than {MAX_DIFFERENT_BYTES >> 20} MiB of different text. Write the "
                "file with fewer rows per row group, or without columns that are neither images nor labels."
            )
        for text in texts:
            lengths = _lengths(text)
            longest = int(lengths.max(initial=0))
            if longest > MAX_CELL_BYTES:
                raise DataError(
                    f"{self.place}: holds a text of {longest:,} bytes, and paths and labels have at most "
                    f"{MAX_CELL_BYTES:,}. Shorten it, or remove its column."
                )
            self.read += int(lengths.sum())
        if self.read > MAX_TEXT_BYTES + MOST_GROWTH * self.size:
            raise DataError(
                f"{self.place}: repeats its texts until they are more than {self.read >> 20} MiB, from a file of "
                f"{self.size:,} bytes. If you trust it, write it as CSV."
            )


@contextmanager
def open_text(place: str, columns: Iterable[str]) -> Iterator[TextFile]:
    """Open a Parquet file to read columns of text, numbers, and lists of them.

    Args:
        place: Its path or address.
        columns: What will be read: columns, or parts of one such as `image.path`.

    Raises:
        DataError: If it is no Parquet file, or if its footer claims more than any table has.
    """
    wanted = tuple(columns)
    with open_parquet(place) as file:
        metadata = file.metadata
        leaves = [leaf for leaf in map(file.schema.column, range(metadata.num_columns)) if _is_in(leaf.path, wanted)]
    lists = {leaf.path for leaf in leaves if leaf.max_repetition_level}
    texts = {leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type != "DECIMAL"}
    chunks = [chunk for group in range(metadata.num_row_groups) for chunk in _chunks(metadata.row_group(group), wanted)]
    for chunk in chunks:
        if chunk.path_in_schema in texts:
            _check_unpacked(place, chunk)
        if chunk.path_in_schema in lists:
            _check_list(place, chunk)
    unshared = {chunk.path_in_schema for chunk in chunks if _UNSHARED.intersection(chunk.encodings)} & texts
    claimed = sum(max(0, int(chunk.total_compressed_size)) for chunk in chunks)
    size = claimed if is_address(place) else Path(place).stat().st_size
    with open_parquet(place, read_dictionary=sorted(texts - unshared), metadata=metadata) as file:
        yield TextFile(place, file, size, numbered=not unshared)


def cells_of(column: Any) -> list[Any]:
    """Give the cells of an Arrow array as Python's. Cells with the same text share it."""
    from pyarrow import types

    if types.is_list(column.type) or types.is_large_list(column.type):
        entries = iter(cells_of(column.flatten()))
        lengths = column.value_lengths().to_pylist()
        return [None if length is None else list(islice(entries, length)) for length in lengths]
    if not types.is_dictionary(column.type):
        return list(column.to_pylist())
    used, cells = np.unique(column.indices.cast("int64").fill_null(-1).to_numpy(), return_inverse=True)
    texts = [None] * int((used < 0).sum()) + column.dictionary.take(_arrow(used[used >= 0])).to_pylist()
    return [texts[cell] for cell in cells.tolist()]


def _rows_at_once(group: Any, columns: Sequence[str]) -> int:
    """Choose how many rows are read at once: many, as Arrow repeats all texts of a row group with each batch."""
    cells = sum(max(0, int(chunk.num_values)) for chunk in _chunks(group, columns))
    return max(1, min(_MOST_ROWS, _MOST_CELLS * int(group.num_rows) // max(1, cells)))


def _check_unpacked(place: str, chunk: Any) -> None:
    """Refuse text that compression makes very small: a page is unpacked as a whole, before it can be looked at."""
    unpacked, packed = int(chunk.total_uncompressed_size), int(chunk.total_compressed_size)
    if unpacked < 0 or unpacked > MAX_UNPACKED_BYTES + MOST_GROWTH * max(0, packed):
        raise DataError(
            f"{place}: the column {shown(chunk.path_in_schema)} claims {unpacked:,} bytes of text in {packed:,}, which "
            "no table has. If you trust it, write it with fewer rows per row group."
        )


def _check_list(place: str, chunk: Any) -> None:
    """Refuse a column of lists that claims to be of a size, or is encoded in a way, that could fill the memory."""
    if chunk.num_values > MAX_LIST_ENTRIES + MOST_GROWTH * chunk.total_compressed_size:
        raise DataError(
            f"{place}: the lists in {shown(chunk.path_in_schema)} claim {chunk.num_values:,} entries in "
            f"{chunk.total_compressed_size:,} bytes, which no table has."
        )
    if "DELTA_BYTE_ARRAY" in chunk.encodings:
        raise DataError(
            f"{place}: the lists in {shown(chunk.path_in_schema)} have the encoding DELTA_BYTE_ARRAY, which can repeat "
            "a text without limit. Write them with a dictionary, as most programs do."
        )


def _chunks(group: Any, columns: Sequence[str]) -> list[Any]:
    """List what a row group has of some columns, or of parts of columns."""
    chunks = map(group.column, range(group.num_columns))
    return [chunk for chunk in chunks if _is_in(chunk.path_in_schema, columns)]


def _is_in(path: str, columns: Sequence[str]) -> bool:
    return any(path == column or path.startswith(f"{column}.") for column in columns)


def _texts(column: Any) -> Iterator[Any]:
    """Give the arrays of text in an Arrow array, numbered or not."""
    from pyarrow import types

    kind = column.type
    if types.is_list(kind) or types.is_large_list(kind):
        yield from _texts(column.flatten())
    elif types.is_struct(kind):
        for index in range(kind.num_fields):
            yield from _texts(column.field(index))
    elif _is_text(kind.value_type if types.is_dictionary(kind) else kind):
        yield column


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(
        types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    )


def _lengths(text: Any) -> NDArray[np.int64]:
    """Give the bytes of each text in an Arrow array."""
    from pyarrow import compute

    def measured(texts: Any) -> NDArray[np.int64]:
        return np.asarray(compute.binary_length(texts).cast("int64").fill_null(0).to_numpy(zero_copy_only=False))

    if not hasattr(text, "dictionary"):
        return measured(text)
    numbers = text.indices.drop_null().to_numpy(zero_copy_only=False)
    return np.asarray(measured(text.dictionary)[numbers])


def _arrow(numbers: NDArray[np.int64]) -> Any:
    import pyarrow as pa

    return pa.array(numbers)
