"""A sheet of rows and columns, whatever file it was read from, and the label table that it says.

Two shapes are understood. Either one column holds the labels of each image, joined as `fields` describes (an empty
field is an image without labels), or every class has a column of its own, in which 1 is positive, 0 negative, and -1
or nothing unknown.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np

from tagloom.data.formats.classes import GivenClasses
from tagloom.data.formats.fields import SEPARATORS, Separator, separator_by_classes, separator_by_look, split_labels
from tagloom.data.formats.pairs import PairRows
from tagloom.data.table import LabelTable, Unlisted
from tagloom.errors import DataError

Cell: TypeAlias = "str | int | float | bool | list[object] | None"

IMAGE_COLUMNS = (
    *("image", "file_name", "filename", "image_path", "image_file", "image_name", "path", "file_path", "filepath"),
    *("file", "images", "img", "img_path", "image_id", "photo", "picture"),
)
LABEL_COLUMNS = (
    *("labels", "label", "tags", "tag", "classes", "class", "categories", "category"),
    *("label_names", "label_name", "class_names", "class_name", "keywords"),
)
MAX_PATH = 4096
_POSITIVE, _NEGATIVE, _UNKNOWN = {"1", "1.0", "true"}, {"0", "0.0", "false"}, {"-1", "-1.0", "", "nan", "none"}
_SAMPLE = 1000


@dataclass(frozen=True)
class Sheet:
    """Named columns, and rows that can be gone through more than once.

    `rows` gives each row with the place that a message names it by (`line 7`, `row 7`: `unit` and the number), and with
    as many cells as the header.
    """

    path: Path
    header: Sequence[str]
    rows: Callable[[], Iterator[tuple[int, Sequence[Cell]]]]
    unit: str = "line"

    def at(self, number: int) -> str:
        """Where a row is, as messages begin."""
        return f"{self.path}, {self.unit} {number}"


def read_sheet(
    sheet: Sheet,
    given: GivenClasses | None,
    *,
    images: str | Path | None,
    image_column: str | None,
    label_column: str | None,
    separator: str | None,
) -> LabelTable:
    """The label table that a sheet says; the choices are those of `load_table`."""
    if separator is not None and separator not in SEPARATORS:
        known = ", ".join(map(repr, SEPARATORS))
        raise DataError(f"{sheet.path}: labels cannot be separated by {separator!r}. Known separators: {known}")
    image_at = _image_column(sheet, image_column)
    root = sheet.path.parent if images is None else Path(images)
    labels_at = _label_column(sheet, label_column, image_at, given)
    if labels_at is None:
        return _read_class_columns(sheet, root, image_at, given)
    chosen = next((known for known in SEPARATORS if known == separator), None)
    return _read_labels_column(sheet, root, image_at, labels_at, given, chosen)


def _image_column(sheet: Sheet, chosen: str | None) -> int:
    if chosen is not None:
        return _named_column(sheet, chosen)
    plain = [_plain(name) for name in sheet.header]
    return next((plain.index(name) for name in IMAGE_COLUMNS if name in plain), 0)


def _label_column(sheet: Sheet, chosen: str | None, image_at: int, given: GivenClasses | None) -> int | None:
    """The column of labels; None if the classes have a column each."""
    if chosen is not None:
        return _named_column(sheet, chosen)
    plain = [_plain(name) if column != image_at else "" for column, name in enumerate(sheet.header)]
    found = next((plain.index(name) for name in LABEL_COLUMNS if name in plain), None)
    if found is None and len(sheet.header) < 2:
        raise DataError(
            f"{sheet.path}: found only the column {sheet.header[0]!r}. Beside the images a table needs a column "
            "'labels', or one column per class with 1, 0, -1 or nothing."
        )
    # A class may be called "tag": where every known class has a column, the columns are classes.
    return None if given is not None and set(given.names) <= set(sheet.header) else found


def _named_column(sheet: Sheet, name: str) -> int:
    if name not in sheet.header:
        raise DataError(f"{sheet.path}: no column {name!r}. Columns: {_some(sheet.header)}")
    return sheet.header.index(name)


def _read_labels_column(
    sheet: Sheet, root: Path, image_at: int, labels_at: int, given: GivenClasses | None, chosen: Separator | None
) -> LabelTable:
    fields = (cell for _, cells in sheet.rows() if isinstance(cell := cells[labels_at], str))
    separator = chosen
    if separator is None and given is not None:
        separator = separator_by_classes(fields, set(given.names))
        fields = (cell for _, cells in sheet.rows() if isinstance(cell := cells[labels_at], str))
    if separator is None:
        separator = separator_by_look(fields)

    column_of = {name: column for column, name in enumerate(given.names)} if given is not None else {}
    collected = _Collected(sheet)
    for number, cells in sheet.rows():
        cell = cells[labels_at]
        columns = _columns_of_plain_names(cell, separator, column_of)
        if columns is None:
            columns = []
            for name in _names(sheet, number, cell, separator):
                if name not in column_of:
                    if given is not None:
                        raise DataError(f"{sheet.at(number)}: {given.unknown(name)}")
                    column_of[name] = len(column_of)
                columns.append(column_of[name])
        collected.add(number, cells[image_at], columns, ())

    order = tuple(column_of) if given is not None else tuple(sorted(column_of))
    renumbered = np.empty(len(order), dtype=np.int32)
    renumbered[[column_of[name] for name in order]] = np.arange(len(order), dtype=np.int32)
    if not order:
        raise DataError(
            f"{sheet.path}: the column {sheet.header[labels_at]!r} is empty in every row, so there is no class to "
            "learn. Fill it, or give the classes in a classes.txt beside the table."
        )
    positive = collected.positive.to_matrix(len(order), renumbered)
    others = (name for column, name in enumerate(sheet.header) if column not in (image_at, labels_at))
    return LabelTable(
        root,
        collected.images,
        order,
        positive,
        source=str(sheet.path),
        classes_given=given is not None,
        repeated=collected.repeated,
        ignored_columns=tuple(name for name in others if name),
    )


def _read_class_columns(sheet: Sheet, root: Path, image_at: int, given: GivenClasses | None) -> LabelTable:
    class_at = {name: column for column, name in enumerate(sheet.header) if name and column != image_at}
    if given is not None:
        wanted = set(given.names)
        if foreign := next((name for name in class_at if name not in wanted), None):
            raise DataError(f"{sheet.path}, column {foreign!r}: {given.unknown(foreign)}")
        if lacking := [name for name in given.names if name not in class_at]:
            raise DataError(
                f"{sheet.path}: no column for {_some(lacking)}, which {given.origin} lists. Add the columns, empty "
                "where nothing is known."
            )
    names = given.names if given is not None else tuple(sorted(class_at))
    columns = [class_at[name] for name in names]

    def kinds(number: int, cells: Sequence[Cell]) -> tuple[list[int], list[int], list[int]]:
        """The positive, negative and unknown classes of a row."""
        listed: tuple[list[int], list[int], list[int]] = ([], [], [])
        for label, column in enumerate(columns):
            value = str(cells[column]).strip().lower()
            if value in _NEGATIVE:
                listed[1].append(label)
            elif value in _POSITIVE:
                listed[0].append(label)
            elif value in _UNKNOWN:
                listed[2].append(label)
            else:
                raise DataError(
                    f"{sheet.at(number)}, column {sheet.header[column]!r}: found {str(cells[column])[:40]!r} where 1, "
                    "0, -1 or nothing is expected. If the table has one column with all labels, call it 'labels' or "
                    "choose it with label_column=NAME (--data-option label_column=NAME); if this column is no class, "
                    "remove it; if the first line is an image already, put a header above it."
                )
        return listed

    # Only how the pairs are stored hangs on the sample, never what they mean.
    sample = [kinds(number, cells) for number, cells in islice(sheet.rows(), _SAMPLE)]
    mostly_unknown = sum(len(unknown) - len(negative) for _, negative, unknown in sample) > 0
    unlisted: Unlisted = "unknown" if mostly_unknown else "negative"
    collected = _Collected(sheet)
    for number, cells in sheet.rows():
        positive, negative, unknown = kinds(number, cells)
        collected.add(number, cells[image_at], positive, negative if mostly_unknown else unknown)
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


class _Collected:
    """Rows as they stream by, with images that come twice told apart."""

    def __init__(self, sheet: Sheet) -> None:
        self.images: list[str] = []
        self.repeated = 0
        self.positive, self.exceptions = PairRows(), PairRows()
        self._sheet = sheet
        self._row_of: dict[str, int] = {}
        self._numbers = array("q")

    def add(self, number: int, image: Cell, positive: Iterable[int], exceptions: Iterable[int]) -> None:
        """Append a row; a repetition of an earlier one is only counted, a contradiction refused."""
        path = checked_path(image, self._sheet.at(number))
        earlier = self._row_of.setdefault(path, len(self.images))
        if earlier == len(self.images):
            self.images.append(path)
            self.positive.append(positive)
            self.exceptions.append(exceptions)
            self._numbers.append(number)
        elif (self.positive.row(earlier), self.exceptions.row(earlier)) != (set(positive), set(exceptions)):
            raise DataError(
                f"{self._sheet.at(number)}: image {path!r} is on {self._sheet.unit} {self._numbers[earlier]} already, "
                "with other labels. Put all labels of an image into one row."
            )
        else:
            self.repeated += 1


def checked_path(value: object, where: str) -> str:
    """An image's path as text that a file system can take."""
    if not isinstance(value, str | int) or value == "":
        raise DataError(f"{where}: no image path, found {value!r}. Fill it in, or remove the row.")
    path = str(value)
    if "\0" in path or len(path) > MAX_PATH:
        raise DataError(f"{where}: {path[:60]!r}… is no path (a zero byte, or over {MAX_PATH} characters). Correct it.")
    return path


def _columns_of_plain_names(cell: Cell, separator: Separator, column_of: dict[str, int]) -> list[int] | None:
    """The short way for nearly every field of a large table: names without quotes or spaces around, all seen before."""
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
        raise DataError(f"{sheet.at(number)}: labels must be names, found {str(cell)[:80]}. Write a list of strings.")
    return [str(value) for value in values if value != ""]


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(map(repr, names[:8])) + more
