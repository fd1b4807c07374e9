"""Parquet tables, read batch by batch."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Unpack

from tagloom.data.formats.format import Format
from tagloom.data.parsing.sheet import SHEET_OPTIONS, Cell, Sheet, SheetOptions
from tagloom.data.parsing.sheet_table import read_sheet
from tagloom.data.table import LabelTable
from tagloom.errors import DataError, MissingExtraError

_BATCH = 8192


def is_parquet(path: Path) -> bool:
    """Whether a path is a Parquet file, by its name."""
    return path.is_file() and path.suffix.lower() in (".parquet", ".pq")


def read_parquet(path: Path, classes: Sequence[str] | None = None, **options: Unpack[SheetOptions]) -> LabelTable:
    """Read a Parquet file, with the options of any sheet. Labels may also be lists of strings."""
    try:
        import pyarrow as arrow
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise MissingExtraError("Reading a Parquet table", "parquet") from error

    try:
        with ParquetFile(path) as file:
            header, count = list(file.schema_arrow.names), file.metadata.num_rows
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a Parquet file ({error}). Write it again, or give a CSV file.") from error
    if not header or not count:
        raise DataError(f"{path}: {len(header)} columns and {count} rows. A table needs one row per image.")

    def rows() -> Iterator[tuple[int, Sequence[Cell]]]:
        number = 0
        try:
            with ParquetFile(path) as file:
                for batch in file.iter_batches(_BATCH):
                    for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                        number += 1
                        yield number, cells
        except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}, after row {number}: cannot be read ({error}). Write it again.") from error

    return read_sheet(Sheet(path, header, rows, unit="row"), classes, **options)


PARQUET = Format("Parquet", "a .parquet file with images and labels", is_parquet, read_parquet, SHEET_OPTIONS)
