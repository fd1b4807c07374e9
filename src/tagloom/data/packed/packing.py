"""Packing: the images and labels of any table into Parquet shards, which are complete or absent."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tagloom.data.images import read_image
from tagloom.data.packed.columns import IMAGE, LABELS, PackedAbout, names_of, read_about, schema_of
from tagloom.data.packed.parquet_file import open_parquet
from tagloom.data.packed.places import split_of
from tagloom.data.parsing.image_paths import escaped_path
from tagloom.data.table import LabelTable
from tagloom.errors import DataError, ImageError, MissingExtraError
from tagloom.files import remove_partial_files, whole_file
from tagloom.progress import Progress, no_progress
from tagloom.wording import shown

SHARD_BYTES = 256 * 2**20
GROUP_IMAGES = 64
GROUP_BYTES = 8 * 2**20
"""A row group is what is read at a time, so it is small: it ends with so many images, or when it has so many bytes."""


class Packed(NamedTuple):
    """What `pack` did.

    Attributes:
        shards: The files of the whole table, in order.
        images: How many images they hold.
        written: How many of them were written now; the others were there already.
        unreadable: The images that could not be read. Their rows have labels and no picture.
    """

    shards: list[Path]
    images: int
    written: int
    unreadable: list[ImageError]


def pack(
    table: LabelTable,
    out: Path,
    *,
    split: str = "train",
    shard_bytes: int = SHARD_BYTES,
    progress: Progress = no_progress,
) -> Packed:
    """Write a table as shards `<split>-00000.parquet`, `<split>-00001.parquet`, …, in the order of its rows.

    If some of these shards are there already, packing goes on after them. An image goes in byte for byte; one that
    cannot be read keeps its row, so that no row is lost.

    Args:
        table: Of any format, with unknown pairs and label tree.
        out: The folder.
        split: What the names of the shards begin with. Several splits may share a folder.
        shard_bytes: A shard ends when it has so many bytes of pictures.
        progress: Called with images done and images to do.

    Raises:
        DataError: If the folder holds other shards of this name, or the table is empty.
    """
    if not split or not split.replace("_", "").replace("-", "").isalnum() or split[-1].isdigit():
        raise DataError(f"split {shown(split)}: give a word such as train, which begins the names of the shards.")
    if not len(table):
        raise DataError(f"{table.source}: has no image to pack.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        remove_partial_files(out)
        about = PackedAbout.of(table)
        shards, start = _already_packed(out, split, about)
        written = start
        unreadable: list[ImageError] = []
        while written < len(table):
            path = out / f"{split}-{len(shards):05}.parquet"
            with whole_file(path) as partial:
                for end in _write_shard(partial, table, about, written, shard_bytes, unreadable):
                    progress(end, len(table))
                    written = end
            shards.append(path)
    except OSError as error:
        raise DataError(
            f"{out}: cannot be written ({error}). What is complete stays; run it again to go on."
        ) from error
    return Packed(shards, len(table), len(table) - start, unreadable)


def _already_packed(out: Path, split: str, about: PackedAbout) -> tuple[list[Path], int]:
    """Give the shards that are there, and how many rows they have; refuse those of another table."""
    shards = sorted(path for path in out.glob(f"{split}-*.parquet") if split_of(path.name) == split)
    rows = 0
    for index, path in enumerate(shards):
        with open_parquet(str(path), "Packing") as file:
            found, count = read_about(str(path), file.schema_arrow.metadata), int(file.metadata.num_rows)
        if found is None or found[0] != about:
            raise DataError(
                f"{path}: is of another table, or the table has changed. Choose another --out or --split, or delete "
                "the old shards."
            )
        if path.name != f"{split}-{index:05}.parquet" or found[1] != rows:
            raise DataError(f"{path}: a shard before it is missing. Delete this one and those after it, and run again.")
        rows += count
    return shards, rows


def _write_shard(
    path: Path, table: LabelTable, about: PackedAbout, first: int, most: int, unreadable: list[ImageError]
) -> Iterator[int]:
    """Write one shard from row `first` on. Give the row after the last one written, after each row group."""
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter
    except ImportError as error:
        raise MissingExtraError("Packing", "parquet") from error
    schema = schema_of(about, first)
    lists = [f"{field.name}.list.element" for field in schema if field.name != IMAGE]
    # Pictures are compressed already. Names of classes are numbered, so that they take a byte or two.
    compression = {f"{IMAGE}.bytes": "none", f"{IMAGE}.path": "snappy", **dict.fromkeys(lists, "snappy")}
    size, row = 0, first
    with ParquetWriter(
        path, schema, compression=compression, use_dictionary=lists, write_statistics=False, store_schema=True
    ) as writer:
        while row < len(table) and size < most:
            columns: dict[str, list[Any]] = {field.name: [] for field in schema}
            held = 0
            while row < len(table) and len(columns[IMAGE]) < GROUP_IMAGES and held < GROUP_BYTES:
                data = _picture(table, row, unreadable)
                columns[IMAGE].append({"bytes": data, "path": escaped_path(table.images[row])})
                columns[LABELS].append(names_of(table.classes, table.positive, row))
                if about.exception_column is not None:
                    columns[about.exception_column].append(names_of(table.classes, table.exceptions, row))
                held += len(data or b"")
                row += 1
            writer.write_table(pa.table(columns, schema=schema), row_group_size=GROUP_IMAGES)
            size += held
            yield row


def _picture(table: LabelTable, row: int, unreadable: list[ImageError]) -> bytes | None:
    try:
        return read_image(table.image(row))
    except ImageError as error:
        unreadable.append(error)
        return None
