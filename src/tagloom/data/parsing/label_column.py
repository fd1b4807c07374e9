"""Sheets with one column that holds all labels of an image; an empty field is an image without labels."""

from pathlib import Path

import numpy as np

from tagloom.data.parsing.classes import GivenClasses
from tagloom.data.parsing.fields import Separator, separator_by_classes, separator_by_look, split_labels
from tagloom.data.parsing.sheet import Cell, CollectedRows, Sheet
from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.wording import shown

_HOW_JOINED: dict[Separator, str] = {
    "list": "each field of labels is a list",
    "|": "labels of an image are separated by '|'",
    ";": "labels of an image are separated by ';'",
    ",": "labels of an image are separated by ','",
    " ": "labels of an image are separated by spaces",
    "": "each field of labels is one label; if spaces separate several, choose separator=' '",
}


def read_label_column(
    sheet: Sheet,
    root: Path,
    image_column: int,
    label_column: int,
    given: GivenClasses | None,
    separator: Separator | None,
) -> LabelTable:
    """Read a sheet whose labels are in one column; without a `separator`, find which one the column uses."""
    if separator is None:
        separator = _find_separator(sheet, label_column, given)
    column_of = {name: column for column, name in enumerate(given.names)} if given is not None else {}
    collected = CollectedRows(sheet)
    for number, cells in sheet.rows():
        cell = cells[label_column]
        columns = _columns_of_plain_names(cell, separator, column_of)
        if columns is None:
            columns = []
            for name in _names(sheet, number, cell, separator):
                if name not in column_of:
                    if given is not None:
                        raise DataError(f"{sheet.at(number)}: {given.unknown(name)}")
                    column_of[name] = len(column_of)
                columns.append(column_of[name])
        collected.add(number, cells[image_column], columns, ())

    order = tuple(column_of) if given is not None else tuple(sorted(column_of))
    if not order:
        raise DataError(
            f"{sheet.path}: the column {shown(sheet.header[label_column])} is empty in every row, so there is no class "
            "to learn. Fill it, or list the classes in a classes.txt next to the table."
        )
    renumbered = np.empty(len(order), dtype=np.int32)
    renumbered[[column_of[name] for name in order]] = np.arange(len(order), dtype=np.int32)
    others = (name for column, name in enumerate(sheet.header) if column not in (image_column, label_column))
    return LabelTable(
        root,
        collected.images,
        order,
        collected.positive.to_matrix(len(order), renumbered),
        source=str(sheet.path),
        classes_given=given is not None,
        repeated=collected.repeated,
        ignored_columns=tuple(name for name in others if name),
        understood=(_HOW_JOINED[separator],),
    )


def _find_separator(sheet: Sheet, label_column: int, given: GivenClasses | None) -> Separator:
    """Find the separator by the known classes, or else by the marks in the column."""
    if given is not None:
        texts = (cell for _, cells in sheet.rows() if isinstance(cell := cells[label_column], str))
        if (found := separator_by_classes(texts, set(given.names))) is not None:
            return found
    return separator_by_look(cell for _, cells in sheet.rows() if isinstance(cell := cells[label_column], str))


def _columns_of_plain_names(cell: Cell, separator: Separator, column_of: dict[str, int]) -> list[int] | None:
    """Take the fast path for nearly every field of a large table: names without quotes or outer spaces, all known."""
    if not isinstance(cell, str) or '"' in cell or separator in ("list", " "):
        return None
    try:
        return [column_of[name] for name in (cell.split(separator) if separator else [cell])]
    except KeyError:
        return None


def _names(sheet: Sheet, number: int, cell: Cell, separator: Separator) -> list[str]:
    if cell is None or cell == "":
        return []
    if isinstance(cell, str):
        try:
            return split_labels(cell, separator)
        except DataError as error:
            raise DataError(f"{sheet.at(number)}: {error}") from error
    values = cell if isinstance(cell, list) else [cell]
    if not all(isinstance(value, str | int) for value in values):
        raise DataError(f"{sheet.at(number)}: labels must be names, found {shown(cell)}. Write a list of strings.")
    return [str(value) for value in values if value != ""]
