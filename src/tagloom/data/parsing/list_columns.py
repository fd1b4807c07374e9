"""Columns whose fields are lists, such as `['Comedy', 'Drama']`: labels, whatever the column is called."""

from itertools import islice
from typing import NamedTuple

from tagloom.data.parsing.class_columns import MARKS
from tagloom.data.parsing.fields import as_list
from tagloom.data.parsing.sheet import Cell, Sheet
from tagloom.errors import DataError
from tagloom.wording import listed, shown

SAMPLE = 1000


class ListColumn(NamedTuple):
    """The one column of a sheet whose fields are lists, and how it was understood."""

    column: int
    note: str


def find_list_column(sheet: Sheet, image_column: int) -> ListColumn | None:
    """Find the one column whose fields are all lists, in the first rows; None if there is none, or more than one.

    Raises:
        DataError: If there are columns of 0 and 1 beside it that say something else.
    """
    rows = [cells for _, cells in islice(sheet.rows(), SAMPLE)]
    columns = [column for column in range(len(sheet.header)) if column != image_column]
    lists = [column for column in columns if _are_lists([cells[column] for cells in rows])]
    if len(lists) != 1:
        return None
    found = [_names(cells[lists[0]]) for cells in rows]
    marked = {
        sheet.header[column]: column
        for column in columns
        if column != lists[0] and all(_is_mark(cells[column]) for cells in rows)
    }
    title = shown(sheet.header[lists[0]])
    if not marked:
        return ListColumn(lists[0], f"labels are in the column {title}: its fields are lists")
    differing = sum(
        any((name in names) != (_mark(cells[column]) in MARKS.positive) for name, column in marked.items())
        for names, cells in zip(found, rows, strict=True)
    )
    if differing > len(rows) / 2:
        raise DataError(
            f"{sheet.path}: the column {title} holds lists, and {listed(map(shown, marked), 4)} hold 0 and 1, which "
            "say something else. Choose the labels with label_column=NAME (--data-option label_column=NAME), or remove "
            f"the column {title}."
        )
    agreeing = "repeat it" if not differing else f"repeat it but for {differing:,} of the first {len(rows):,} rows"
    return ListColumn(
        lists[0],
        f"labels are in the column {title}: its fields are lists, and {len(marked):,} columns of 0 and 1 {agreeing}",
    )


def _are_lists(cells: list[Cell]) -> bool:
    filled = [cell for cell in cells if cell is not None and cell != ""]
    return bool(filled) and all(
        (isinstance(cell, list) and all(isinstance(name, str | int) for name in cell))
        or (isinstance(cell, str) and as_list(cell) is not None)
        for cell in filled
    )


def _names(cell: Cell) -> set[str]:
    return (
        set(map(str, cell)) if isinstance(cell, list) else set(as_list(cell) or []) if isinstance(cell, str) else set()
    )


def _mark(cell: Cell) -> str:
    return str(cell).strip().lower()


def _is_mark(cell: Cell) -> bool:
    return not isinstance(cell, list | dict) and _mark(cell) in MARKS.positive | MARKS.negative | MARKS.unknown
