"""Sheets with a column per class: 1 is positive, 0 negative, and -1 or nothing unknown."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tagloom.data.parsing.classes import GivenClasses
from tagloom.data.parsing.sheet import Cell, CollectedRows, Sheet, SparseCells
from tagloom.data.table import LabelTable, Unlisted
from tagloom.errors import DataError
from tagloom.wording import listed, shown

_SAMPLE = 1000


class MarkForms(NamedTuple):
    """What may stand in the column of a class, in lower case."""

    positive: frozenset[str]
    negative: frozenset[str]
    unknown: frozenset[str]


MARKS = MarkForms(
    frozenset({"1", "1.0", "true"}),
    frozenset({"0", "0.0", "false"}),
    frozenset({"-1", "-1.0", "", "nan", "none"}),
)


class _Marks(NamedTuple):
    """The classes that one row says are positive or negative. It leaves the others unknown."""

    positive: list[int]
    negative: list[int]

    def unknown(self, classes: int) -> list[int]:
        if len(self.positive) + len(self.negative) == classes:
            return []
        known = {*self.positive, *self.negative}
        return [column for column in range(classes) if column not in known]


def read_class_columns(sheet: Sheet, root: Path, image_column: int, given: GivenClasses | None) -> LabelTable:
    """Read a sheet in which every column except that of the images is a class."""
    sheet_columns = _class_columns(sheet, image_column, given)
    names = tuple(sheet_columns)
    column_of = {sheet_column: column for column, sheet_column in enumerate(sheet_columns.values())}

    mostly_unknown = _is_mostly_unknown(sheet, column_of)
    unlisted: Unlisted = "unknown" if mostly_unknown else "negative"
    collected = CollectedRows(sheet)
    for number, cells in sheet.rows():
        marks = _marks(sheet, number, cells, column_of)
        listed_too = marks.negative if mostly_unknown else marks.unknown(len(names))
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
        negatives_stated=True,
    )


def _class_columns(sheet: Sheet, image_column: int, given: GivenClasses | None) -> dict[str, int]:
    """Map each class, in the order of the table, to its column of the sheet."""
    found = {name: column for column, name in enumerate(sheet.header) if name and column != image_column}
    if given is None:
        return {name: found[name] for name in sorted(found)}
    wanted = set(given.names)
    if foreign := next((name for name in found if name not in wanted), None):
        raise DataError(f"{sheet.path}, column {shown(foreign)}: {given.unknown(foreign)}")
    if lacking := [name for name in given.names if name not in found]:
        raise DataError(
            f"{sheet.path}: no column for {listed(map(shown, lacking))}, listed by {given.origin}. Add the columns, "
            "empty where nothing is known."
        )
    return {name: found[name] for name in given.names}


def _is_mostly_unknown(sheet: Sheet, column_of: Mapping[int, int]) -> bool:
    """Whether more pairs are unknown than negative. This decides only how pairs are stored, never what they mean.

    The first rows are enough to tell where every row spells out every cell. In a sparse sheet all rows count, so that
    what is listed never outgrows the file.
    """
    balance = 0
    for number, cells in islice(sheet.rows(), None if sheet.sparse else _SAMPLE):
        marks = _marks(sheet, number, cells, column_of)
        balance += len(column_of) - len(marks.positive) - 2 * len(marks.negative)
    return balance > 0


def _marks(sheet: Sheet, number: int, cells: Sequence[Cell] | SparseCells, column_of: Mapping[int, int]) -> _Marks:
    """Sort the classes of a row; `column_of` maps columns of the sheet to classes."""
    marks = _Marks([], [])
    for sheet_column, cell in cells.items() if isinstance(cells, dict) else enumerate(cells):
        column = column_of.get(sheet_column)
        if column is None:
            continue
        value = str(cell).strip().lower() if not isinstance(cell, list | dict) else "a list"
        if value in MARKS.negative:
            marks.negative.append(column)
        elif value in MARKS.positive:
            marks.positive.append(column)
        elif value not in MARKS.unknown:
            name = sheet.header[sheet_column]
            raise DataError(
                f"{sheet.at(number)}, column {shown(name)}: expected 1, 0, -1 or nothing, found {shown(cell)}. "
                "If one column holds all labels, call it 'labels' or choose it with label_column=NAME (--data-option "
                "label_column=NAME). If this column is not a class, remove it. If the first line is already an image, "
                "put a header above it."
            )
    return marks
