"""CSV and TSV files, streamed: a million rows never stand in memory as text."""

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from tagloom.data.formats.classes import given_classes
from tagloom.data.formats.sheet import Sheet, read_sheet
from tagloom.data.images import IMAGE_SUFFIXES
from tagloom.data.table import LabelTable
from tagloom.errors import DataError

SUFFIXES = (".csv", ".tsv", ".tab", ".txt")
MAX_LINE = 8 * 2**20
_DELIMITERS = "\t,;"


def is_delimited(path: Path) -> bool:
    """Whether a path is a file that this module reads."""
    return path.is_file() and path.suffix.lower() in SUFFIXES


def read_delimited(
    path: Path,
    classes: Sequence[str] | None = None,
    *,
    images: str | Path | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    separator: str | None = None,
) -> LabelTable:
    """Read a CSV or TSV file with a header.

    Args:
        path: The file. Tab, comma or semicolon between columns: the first of these that the header has.
        classes: The order of classes; without it that of `classes.txt` beside the file, else sorted.
        images: The folder that image paths start from; without it, the file's own.
        image_column: The column of images; without it, one with a usual name (image, file_name, ...), else the first.
        label_column: The column of labels; without it, one with a usual name (labels, tags, ...), else one per class.
        separator: What joins names in the column of labels; without it, found out as `fields` describes.
    """
    header, delimiter = _read_header(path)
    sheet = Sheet(path, header, lambda: _rows(path, len(header), delimiter))
    return read_sheet(
        sheet,
        given_classes(path, classes),
        images=images,
        image_column=image_column,
        label_column=label_column,
        separator=separator,
    )


def _read_header(path: Path) -> tuple[list[str], str]:
    """Column names and the delimiter, once it is sure that there is a row below them."""
    first = next((line for _, line in text_lines(path) if not line.isspace()), None)
    if first is None:
        raise DataError(
            f"{path}: the file is empty. A header such as 'image,labels' and one row per image are expected."
        )
    delimiter = next((sign for sign in _DELIMITERS if sign in first), ",")
    records = _records(path, delimiter)
    number, fields = next(records)
    header = [name.strip() for name in fields]
    if image := next((cell for cell in header if Path(cell).suffix.lower() in IMAGE_SUFFIXES), None):
        raise DataError(
            f"{path}, line {number}: the first row looks like data, because it holds the image {image[:60]!r}. Put a "
            f"header line above it, such as {f'image{delimiter}labels'!r}."
        )
    if len(set(header)) != len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise DataError(f"{path}, line {number}: two columns are called {twice!r}. Rename one.")
    if next(records, None) is None:
        raise DataError(f"{path}: found a header and no rows below it. Add one row per image.")
    return header, delimiter


def _rows(path: Path, width: int, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    records = _records(path, delimiter)
    next(records)
    for number, fields in records:
        if len(fields) != width:
            raise DataError(
                f"{path}, line {number}: found {len(fields)} fields where the header has {width}. "
                f"A field that holds {delimiter!r} itself must stand in double quotes."
            )
        yield number, fields


def _records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each record's first line number and fields."""
    lines = text_lines(path)
    for number, line in lines:
        if line.isspace():
            continue
        if '"' in line:
            yield number, _quoted_record(line, lines, delimiter, f"{path}, line {number}")
        else:
            yield number, line.rstrip("\r\n").split(delimiter)


def _quoted_record(line: str, following: Iterator[tuple[int, str]], delimiter: str, where: str) -> list[str]:
    """The fields of a record with quotes, which may run over the following lines."""
    pulled: list[str] = []

    def more() -> Iterator[str]:
        for _, text in following:
            pulled.append(text)
            yield text

    try:
        return next(csv.reader(chain([line], more()), delimiter=delimiter, strict=True))
    except csv.Error as error:
        # A field such as `"dining table" dog` is no CSV, but people write it and it can only mean one thing.
        loose = rf'(?:"[^"]*"|[^{delimiter}"])*'
        text = line.rstrip("\r\n")
        if not pulled and re.fullmatch(rf"{loose}(?:{delimiter}{loose})*", text):
            return [_unwrapped(field) for field in re.findall(rf"(?:^|{delimiter})({loose})", text)]
        raise DataError(
            f"{where}: quotes do not match ({error}). Close the quote, and write a quote inside quotes twice."
        ) from error


def _unwrapped(field: str) -> str:
    whole = re.fullmatch(r'"((?:[^"]|"")*)"', field)
    return whole[1].replace('""', '"') if whole else field


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines; a line beyond all measure is refused before it fills the memory."""
    number = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            while line := file.readline(MAX_LINE):
                number += 1
                if len(line) == MAX_LINE:
                    raise DataError(f"{path}, line {number}: longer than {MAX_LINE} characters. Is this a text table?")
                yield number, line
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, after line {number}: not UTF-8 text ({error.reason}). Save the table as UTF-8."
        ) from error
