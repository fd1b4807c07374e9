"""Parquet: a table that names image files, or one that holds the pictures; one file, or a folder of shards."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from tagloom.data.formats.format import Format
from tagloom.data.packed.images import PackedImages
from tagloom.data.packed.label_columns import LabelFile, read_label_columns
from tagloom.data.packed.parquet_file import open_parquet, picture_column, picture_columns
from tagloom.data.packed.places import find_shards, holds_shards, is_parquet_name
from tagloom.data.packed.shards import MAX_ROWS, Shards, survey
from tagloom.data.packed.sheet import parquet_sheet
from tagloom.data.parsing.sheet import SHEET_OPTIONS, SheetOptions, check_header
from tagloom.data.parsing.sheet_table import read_sheet
from tagloom.data.table import LabelTable
from tagloom.errors import DataError


def is_parquet(path: Path) -> bool:
    """Whether a path is a Parquet file, by its name."""
    return path.is_file() and is_parquet_name(path.name)


def read_parquet(path: Path, classes: Sequence[str] | None = None, **options: Unpack[SheetOptions]) -> LabelTable:
    """Read a Parquet file, with the options of any sheet. Labels may also be lists of strings."""
    return _read(str(path), [str(path)], classes, **options)


def read_packed(
    path: str | Path, classes: Sequence[str] | None = None, *, split: str | None = None, **options: Unpack[SheetOptions]
) -> LabelTable:
    """Read the Parquet files of a folder, or at an address that fsspec knows, as one table.

    Args:
        path: The folder, or the address of a folder or a file.
        classes: The order of classes; by default that of the files, of `classes.txt` next to them, else sorted.
        split: Which files: those whose names begin with it, as in `train-00000.parquet`.
        **options: See `SheetOptions`.
    """
    return _read(str(path), find_shards(str(path), split), classes, **options)


def _read(
    place: str, shards: Sequence[str], classes: Sequence[str] | None, **options: Unpack[SheetOptions]
) -> LabelTable:
    files = [_open(shard, options.get("image_column")) for shard in shards]
    first = files[0]
    if differing := next((file for file in files if file.schema != first.schema), None):
        raise DataError(f"{differing.place}: its columns differ from those of {first.place}. Pack both again together.")
    count = sum(file.rows for file in files)
    header = first.schema.names
    if not header or not count:
        raise DataError(f"{place}: {len(header)} columns and {count} rows. A table needs one row per image.")
    if count > MAX_ROWS:
        raise DataError(f"{place}: {count:,} rows, more than {MAX_ROWS:,}. Split the table.")
    check_header(header, first.place)
    if first.pictures is None:
        return read_sheet(parquet_sheet(files), classes, **options)
    store = Shards([file.shard for file in files], first.pictures)
    packed = PackedImages(store, np.arange(count))
    table = read_label_columns(place, files, store)
    if table is None:
        options["image_column"] = first.pictures
        table = read_sheet(parquet_sheet(files, store), classes, **options)
    elif classes is not None:
        table = table.with_classes(classes)
    return replace(table, root=Path(place), source=place, packed=packed)


def _open(place: str, chosen: str | None) -> LabelFile:
    """Read the footer of a file: its columns, its row groups, and which column has pictures, if one has."""
    with open_parquet(place, "Reading a Parquet table") as file:
        try:
            schema: Any = file.schema_arrow
            found = picture_columns(schema)
            if chosen is not None:  # which may also be a column that names files next to the pictures
                pictures = chosen if chosen in found else None
            else:
                pictures = picture_column(place, schema) if found else None
            return LabelFile(place, schema, pictures, survey(place, file, pictures))
        except DataError:
            raise
        except Exception as error:
            raise DataError(f"{place}: its footer cannot be read ({error}). Make it again.") from error


PARQUET = Format("Parquet", "a .parquet file with images and labels", is_parquet, read_parquet, SHEET_OPTIONS)
PACKED = Format(
    "packed data",
    "a folder of .parquet shards, as tagloom pack writes them",
    holds_shards,
    read_packed,
    ("split", *SHEET_OPTIONS),
    suggested=False,
)
