"""JSON-lines tables, and the image folders of Hugging Face datasets, which keep their labels in a metadata file."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tagloom.data.formats.classes import given_classes
from tagloom.data.formats.delimited import read_delimited, text_lines
from tagloom.data.formats.sheet import Cell, Sheet, read_sheet
from tagloom.data.table import LabelTable
from tagloom.errors import DataError

METADATA = ("metadata.jsonl", "metadata.csv")


def is_json_lines(path: Path) -> bool:
    """Whether a path is a file of JSON lines."""
    return path.is_file() and path.suffix.lower() in (".jsonl", ".ndjson")


def is_image_folder(path: Path) -> bool:
    """Whether a path is a folder with a metadata file."""
    return any((path / name).is_file() for name in METADATA)


def read_image_folder(path: Path, classes: Sequence[str] | None = None, **choices: Any) -> LabelTable:
    """Read the metadata file of an image folder, with the choices of that file's own format."""
    found = [path / name for name in METADATA if (path / name).is_file()]
    if len(found) > 1:
        raise DataError(f"{path}: found both {' and '.join(METADATA)}. Give the one that you mean.")
    return (read_json_lines if is_json_lines(found[0]) else read_delimited)(found[0], classes, **choices)


def read_json_lines(
    path: Path,
    classes: Sequence[str] | None = None,
    *,
    images: str | Path | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    separator: str | None = None,
) -> LabelTable:
    """Read a file with one JSON object a line; the keys are the columns, and the choices those of CSV files.

    Labels are a list of names or a joined string. A key that a line lacks counts as null: no labels, or for one key
    per class, unknown.
    """
    header = list(dict.fromkeys(key for _, record in _records(path) for key in record))
    if not header:
        raise DataError(f"{path}: no records. One JSON object a line is expected, with 'file_name' and 'labels'.")

    def rows() -> Iterator[tuple[int, list[Cell]]]:
        for number, record in _records(path):
            yield number, [record.get(key) for key in header]

    return read_sheet(
        Sheet(path, header, rows),
        given_classes(path, classes),
        images=images,
        image_column=image_column,
        label_column=label_column,
        separator=separator,
    )


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in text_lines(path):
        if line.isspace():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: not JSON ({error}). One object a line is expected.") from error
        if not isinstance(record, dict):
            raise DataError(f"{path}, line {number}: found {line.strip()[:40]!r} where a JSON object is expected.")
        yield number, record
