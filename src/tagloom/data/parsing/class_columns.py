"""Sheets with a column per class: 1 is positive, 0 negative, and -1 or nothing unknown."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tagloom.data.parsing.classes import GivenClasses
from tagloom.data.parsing.sheet import Cell, CollectedRows, Sheet
from tagloom.data.table import LabelTable, Unlisted
from tagloom.errors import DataError
from tagloom.wording import listed

_POSITIVE, _NEGATIVE, _UNKNOWN = {"1", "1.0", "true"}, {"0", "0.0", "false"}, {"-1", "-1.0", "", "nan", "none"}
_SAMPLE = 1000


class _Marks(NamedTuple):
    """The classes of one row by what the row says about them."""

    positive: list[int]
    negative: list[int]
    unknown: list[int]


def read_class_columns(sheet: Sheet, root: Path, image_column: int, given: GivenClasses | None) -> LabelTable:
    """Read a sheet in which every column except that of the images is a class."""
    sheet_columns = _class_columns(sheet, image_column, given)
    names = tuple(sheet_columns)

    # The sample decides only how pairs are stored, never what they mean.
    sample = [_marks(sheet, number, cells, sheet_columns) for number, cells in islice(sheet.rows(), _SAMPLE)]
    mostly_unknown = sum(len(marks.unknown) - len(marks.negative) for marks in sample) > 0
    unlisted: Unlisted = "unknown" if mostly_unknown else "negative"
    collected = CollectedRows(sheet)
    for number, cells in sheet.rows():
        marks = _marks(sheet, number, cells, sheet_columns)
        listed_too = marks.negative if mostly_unknown else marks.unknown
        collected.add(number, cells[image_column], marks.positive, listed_too)
    exceptions = collected.exceptions.to_matrix(len(names))
    return LabelTable(
        root,
        collected.images,
        names,
        collected.positive.to_matrix(len(names)),
        exceptions if exceptions.nnz else None,
        unlisted,
        source=str(sheet.path),
        classes_given=given is not None,
        repeated=collected.repeated,
    )


def _class_columns(sheet: Sheet, image_column: int, given: GivenClasses | None) -> dict[str, int]:
    """Map each class, in the order of the table, to its column of the sheet."""
    found = {name: column for column, name in enumerate(sheet.header) if name and column != image_column}
    if given is None:
        return {name: found[name] for name in sorted(found)}
    wanted = set(given.names)
    if foreign := next((name for name in found if name not in wanted), None):
        raise DataError(f"{sheet.path}, column {foreign!r}: {given.unknown(foreign)}")
    if lacking := [name for name in given.names if name not in found]:
        raise DataError(
            f"{sheet.path}: no column for {listed(map(repr, lacking))}, listed by {given.origin}. Add the columns, "
            "empty where nothing is known."
        )
    return {name: found[name] for name in given.names}


def _marks(sheet: Sheet, number: int, cells: Sequence[Cell], sheet_columns: dict[str, int]) -> _Marks:
    marks = _Marks([], [], [])
    for column, (name, sheet_column) in enumerate(sheet_columns.items()):
        value = str(cells[sheet_column]).strip().lower()
        if value in _NEGATIVE:
            marks.negative.append(column)
        elif value in _POSITIVE:
            marks.positive.append(column)
        elif value in _UNKNOWN:
            marks.unknown.append(column)
        else:
            raise DataError(
                f"{sheet.at(number)}, column {name!r}: expected 1, 0, -1 or nothing, found "
                f"{str(cells[sheet_column])[:40]!r}. If one column holds all labels, call it 'labels' or choose it "
                "with label_column=NAME (--data-option label_column=NAME). If this column is not a class, remove it. "
                "If the first line is already an image, put a header above it."
            )
    return marks
