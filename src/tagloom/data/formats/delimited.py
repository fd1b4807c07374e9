"""CSV and TSV files, streamed: a million rows are never in memory as text."""

import csv
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Unpack

from tagloom.data.formats.format import Format
from tagloom.data.images import IMAGE_SUFFIXES
from tagloom.data.parsing.lines import check_record, text_lines
from tagloom.data.parsing.sheet import SHEET_OPTIONS, Sheet, SheetOptions, check_header
from tagloom.data.parsing.sheet_table import read_sheet
from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.wording import shown

SUFFIXES = (".csv", ".tsv", ".tab", ".txt")
_DELIMITERS = "\t,;"


def is_delimited(path: Path) -> bool:
    """Whether a path is a text table, by its name."""
    return path.is_file() and path.suffix.lower() in SUFFIXES


def read_delimited(path: Path, classes: Sequence[str] | None = None, **options: Unpack[SheetOptions]) -> LabelTable:
    """Read a CSV or TSV file with a header.

    Args:
        path: The file. Columns are separated by tabs, commas or semicolons: the first of these in the header.
        classes: The order of classes; by default that of `classes.txt` next to the file, else sorted.
        **options: See `SheetOptions`.
    """
    header, delimiter = _read_header(path)
    return read_sheet(Sheet(path, header, lambda: _rows(path, len(header), delimiter)), classes, **options)


def _read_header(path: Path) -> tuple[list[str], str]:
    """Read the column names and find the delimiter; refuse a file without rows below them."""
    first = next((line for _, line in text_lines(path) if not line.isspace()), None)
    if first is None:
        raise DataError(f"{path}: the file is empty. Expected a header such as 'image,labels' and one row per image.")
    delimiter = next((known for known in _DELIMITERS if known in first), ",")
    records = _records(path, delimiter)
    number, fields = next(records)
    header = [name.strip() for name in fields]
    if image := next((cell for cell in header if Path(cell).suffix.lower() in IMAGE_SUFFIXES), None):
        raise DataError(
            f"{path}, line {number}: the first row looks like data: it contains the image {shown(image)}. Put a "
            f"header line above it, such as {f'image{delimiter}labels'!r}."
        )
    check_header(header, f"{path}, line {number}")
    if next(records, None) is None:
        raise DataError(f"{path}: found a header but no rows. Add one row per image.")
    return header, delimiter


def _rows(path: Path, width: int, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    records = _records(path, delimiter)
    next(records)
    for number, fields in records:
        if len(fields) != width:
            raise DataError(
                f"{path}, line {number}: found {len(fields)} fields, but the header has {width}. "
                f"Put a field that contains {delimiter!r} in double quotes."
            )
        yield number, fields


def _records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of each record, with the number of its first line."""
    lines = text_lines(path)
    for number, line in lines:
        if line.isspace():
            continue
        if '"' in line:
            yield number, _quoted_record(path, number, line, lines, delimiter)
        else:
            yield number, line.rstrip("\r\n").split(delimiter)


def _quoted_record(
    path: Path, number: int, line: str, following: Iterator[tuple[int, str]], delimiter: str
) -> list[str]:
    """Split a record with quotes, which may continue on the following lines, into fields."""
    size = len(line)

    def more() -> Iterator[str]:
        nonlocal size
        for last, text in following:
            size += len(text)
            check_record(path, last, size)
            yield text

    try:
        return next(csv.reader(chain([line], more()), delimiter=delimiter, strict=True))
    except csv.Error as error:
        # A field such as `"dining table" dog` is not valid CSV, but people write it, and it can mean only one thing.
        if size == len(line) and line.count('"') % 2 == 0:
            return [_unwrapped(field) for field in _split_outside_quotes(line.rstrip("\r\n"), delimiter)]
        raise DataError(
            f"{path}, line {number}: quotes do not match ({error}). Close the quote, and write a quote inside quotes "
            "twice."
        ) from error


def _split_outside_quotes(text: str, delimiter: str) -> list[str]:
    """Split a line at the delimiters that are outside quotes.

    >>> _split_outside_quotes('a.jpg,"cat, tabby" dog', ",")
    ['a.jpg', '"cat, tabby" dog']
    """
    fields: list[list[str]] = [[]]
    for index, piece in enumerate(text.split('"')):
        first, *others = [piece] if index % 2 else piece.split(delimiter)  # every second piece is inside quotes
        fields[-1] += ['"', first] if index else [first]
        fields += [[other] for other in others]
    return ["".join(pieces) for pieces in fields]


def _unwrapped(field: str) -> str:
    """Remove the quotes around a whole field; a quote inside it is written twice."""
    inner = field[1:-1]
    whole = len(field) > 1 and field[0] == field[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if whole else field


DELIMITED = Format(
    "CSV", "a .csv, .tsv or .txt file with a header, images and labels", is_delimited, read_delimited, SHEET_OPTIONS
)
