"""Parquet tables, read batch by batch."""

from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from types import ModuleType
from typing import Any, Unpack

from tagloom.data.formats.format import Format
from tagloom.data.parsing.sheet import SHEET_OPTIONS, Cell, Sheet, SheetOptions, UnreadCell, check_header
from tagloom.data.parsing.sheet_table import read_sheet
from tagloom.data.regular_file import open_regular
from tagloom.data.table import LabelTable
from tagloom.errors import DataError, MissingExtraError
from tagloom.wording import first_line, shown

MAX_ROWS = 100_000_000
"""A few bytes of Parquet can repeat one row a billion times, and reading them all would take hours."""
_BATCH = 1024


def is_parquet(path: Path) -> bool:
    """Whether a path is a Parquet file, by its name."""
    return path.is_file() and path.suffix.lower() in (".parquet", ".pq")


def read_parquet(path: Path, classes: Sequence[str] | None = None, **options: Unpack[SheetOptions]) -> LabelTable:
    """Read a Parquet file, with the options of any sheet. Labels may also be lists of strings."""
    try:
        from pyarrow import types
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise MissingExtraError("Reading a Parquet table", "parquet") from error

    try:
        with open_regular(path) as stream, ParquetFile(stream) as file:
            schema, count = file.schema_arrow, file.metadata.num_rows
            header = list(schema.names)
    except Exception as error:  # pyarrow raises many types on a damaged file, from ArrowException to UnicodeDecodeError
        raise DataError(
            f"{path}: not a Parquet file ({first_line(error)}). Write it again, or give a CSV file."
        ) from error
    if not header or not count:
        raise DataError(f"{path}: {len(header)} columns and {count} rows. A table needs one row per image.")
    if count > MAX_ROWS:
        raise DataError(f"{path}: {count:,} rows, more than {MAX_ROWS:,}. Split the table.")
    check_header(header, str(path))
    unread = {
        column: UnreadCell(shown(str(kind)).strip("'"))
        for column, kind in enumerate(schema.types)
        if not _is_plain(types, kind)
    }
    plain = [name for column, name in enumerate(header) if column not in unread]

    def rows() -> Iterator[tuple[int, Sequence[Cell]]]:
        number = 0
        try:
            with open_regular(path) as stream, ParquetFile(stream) as file:
                for batch in file.iter_batches(_BATCH, columns=plain):
                    columns = [
                        repeat(unread[column], len(batch)) if column in unread else batch.column(name).to_pylist()
                        for column, name in enumerate(header)
                    ]
                    for cells in zip(*columns, strict=True):
                        number += 1
                        yield number, cells
        except Exception as error:
            raise DataError(
                f"{path}, after row {number}: cannot be read ({first_line(error)}). Write it again."
            ) from error

    return read_sheet(Sheet(path, header, rows, unit="row"), classes, **options)


def _is_plain(types: ModuleType, kind: Any) -> bool:
    """Whether cells of an Arrow type are numbers, text or lists of them.

    Cells of other types are not read: they may be pictures, and a batch of those fills the memory, or times that Python
    cannot represent.
    """
    if types.is_dictionary(kind) or types.is_list(kind) or types.is_large_list(kind):
        return _is_plain(types, kind.value_type)
    text = types.is_string(kind) or types.is_large_string(kind)
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
    return bool(text or number or types.is_null(kind))


PARQUET = Format("Parquet", "a .parquet file with images and labels", is_parquet, read_parquet, SHEET_OPTIONS)
