"""Lines and CSV records of a text file, streamed and numbered."""

import csv
from collections.abc import Iterator
from pathlib import Path

from tagloom.errors import DataError

MAX_LINE = 8 * 2**20


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each line with its number. A line of absurd length is refused before it fills the memory."""
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


def csv_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of each record of a strict CSV file, with the number of its last line."""
    reader = csv.reader((line for _, line in text_lines(path)), strict=True)
    try:
        for fields in reader:
            if fields:
                yield reader.line_num, fields
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: not CSV ({error}). Correct the line.") from error
