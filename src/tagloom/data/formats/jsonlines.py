"""JSON-lines tables: one JSON object per line, whose keys are the columns."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

from tagloom.data.formats.format import Format
from tagloom.data.parsing.lines import text_lines
from tagloom.data.parsing.sheet import SHEET_OPTIONS, Sheet, SheetOptions, SparseCells
from tagloom.data.parsing.sheet_table import read_sheet
from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.wording import first_line, shown


def is_json_lines(path: Path) -> bool:
    """Whether a path is a file of JSON lines, by its name."""
    return path.is_file() and path.suffix.lower() in (".jsonl", ".ndjson")


def read_json_lines(path: Path, classes: Sequence[str] | None = None, **options: Unpack[SheetOptions]) -> LabelTable:
    """Read a file with one JSON object per line, with the options of any sheet.

    Labels are a list of names or a joined string. A key that a line lacks counts as null: no labels, or with one key
    per class, unknown.
    """
    header = list(dict.fromkeys(key for _, record in _records(path) for key in record))
    if not header:
        raise DataError(f"{path}: no records. Expected one JSON object per line, with 'file_name' and 'labels'.")

    column_of = {key: column for column, key in enumerate(header)}

    def rows() -> Iterator[tuple[int, SparseCells]]:
        for number, record in _records(path):
            yield number, SparseCells((column_of[key], cell) for key, cell in record.items())

    return read_sheet(Sheet(path, header, rows, sparse=True), classes, **options)


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in text_lines(path):
        if line.isspace():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{path}, line {number}: not JSON ({first_line(error)}). Expected one object per line."
            ) from error
        if not isinstance(record, dict):
            raise DataError(f"{path}, line {number}: expected a JSON object, found {shown(line.strip())}.")
        yield number, record


JSON_LINES = Format("JSON lines", "a .jsonl file with images and labels", is_json_lines, read_json_lines, SHEET_OPTIONS)
