"""A sheet: rows and columns with a header, whatever file they come from, and the rows collected from it."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypedDict

from tagloom.data.parsing.image_paths import checked_path
from tagloom.data.parsing.pairs import PairRows
from tagloom.errors import DataError
from tagloom.wording import shown

Cell: TypeAlias = "str | int | float | bool | list[object] | UnreadCell | None"


@dataclass(frozen=True)
class UnreadCell:
    """A cell that was not read, because neither a path nor a label can be of its type, such as a picture's bytes."""

    kind: str

    def __repr__(self) -> str:
        return self.kind


class SparseCells(dict[int, Cell]):
    """The cells of a row by column. A column that the row lacks has the cell None."""

    def __missing__(self, column: int) -> Cell:
        return None


class SheetOptions(TypedDict, total=False):
    """How to read a sheet where its header does not tell."""

    images: str | Path | None
    """The folder that image paths are relative to; by default the file's own."""
    image_column: str | None
    """The column of images; by default one with a usual name (image, file_name, ...), else the first."""
    label_column: str | None
    """The column of labels; by default one with a usual name (labels, tags, ...), else every class has a column."""
    separator: str | None
    """What joins names in the column of labels; by default found as `fields` describes."""
    names: str | Path | None
    """A CSV file with the names of classes that the table calls by numbers; by default `labels.csv` or the like."""


SHEET_OPTIONS = tuple(SheetOptions.__annotations__)


@dataclass(frozen=True)
class Sheet:
    """Named columns, and rows that can be read more than once.

    `rows` yields each row's number, by which messages name it (`line 7`, `row 7`: `unit` and the number), and its
    cells, one for each column of the header, or if the sheet is `sparse`, only those that the row has.
    """

    path: Path
    header: Sequence[str]
    rows: Callable[[], Iterator[tuple[int, Sequence[Cell] | SparseCells]]]
    unit: str = "line"
    sparse: bool = False
    on_disk: bool = True
    """Whether its images are files, which may have to be looked for; otherwise the sheet only names them."""

    def at(self, number: int) -> str:
        """Say where a row is, to begin a message."""
        return f"{self.path}, {self.unit} {number}"


def check_header(header: Sequence[str], where: str) -> None:
    """Refuse a header in which two columns have the same name; `where` begins the message."""
    if len(set(header)) != len(header):
        twice = next(name for name, times in Counter(header).items() if times > 1)
        raise DataError(f"{where}: two columns are called {shown(twice)}. Rename one.")


class CollectedRows:
    """Images and their pairs, collected while a sheet is read. A row that repeats an image is merged or refused."""

    def __init__(self, sheet: Sheet) -> None:
        self.images: list[str] = []
        self.repeated = 0
        self.positive, self.exceptions = PairRows(), PairRows()
        self._sheet = sheet
        self._row_of: dict[str, int] = {}
        self._numbers = array("q")

    def add(self, number: int, image: Cell, positive: Iterable[int], exceptions: Iterable[int]) -> None:
        """Append a row. One that repeats an earlier row is only counted; one that contradicts it is refused."""
        path = checked_path(image, self._sheet.at(number))
        earlier = self._row_of.setdefault(path, len(self.images))
        if earlier == len(self.images):
            self.images.append(path)
            self.positive.append(positive)
            self.exceptions.append(exceptions)
            self._numbers.append(number)
        elif (self.positive.row(earlier), self.exceptions.row(earlier)) != (set(positive), set(exceptions)):
            raise DataError(
                f"{self._sheet.at(number)}: image {shown(path)} is already on {self._sheet.unit} "
                f"{self._numbers[earlier]}, with other labels. Put all labels of an image into one row."
            )
        else:
            self.repeated += 1
