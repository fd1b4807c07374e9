"""Lines and CSV records of a text file, streamed and numbered."""

import csv
from collections.abc import Iterator
from pathlib import Path

from tagloom.data.regular_file import open_regular_text
from tagloom.errors import DataError

MAX_LINE = 8 * 2**20


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each line with its number. A line of absurd length is refused before it fills the memory."""
    number = 0
    try:
        with open_regular_text(path, encoding="utf-8-sig", newline="") as file:
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
    size = 0

    def lines() -> Iterator[str]:
        nonlocal size
        for number, line in text_lines(path):
            size += len(line)
            check_record(path, number, size)
            yield line

    reader = csv.reader(lines(), strict=True)
    try:
        for fields in reader:
            size = 0
            if fields:
                yield reader.line_num, fields
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: not CSV ({error}). Correct the line.") from error


def check_record(path: Path, number: int, size: int) -> None:
    """Refuse a record that runs over so many lines that a quote is most likely missing; `size` counts characters."""
    if size > MAX_LINE:
        raise DataError(
            f"{path}, line {number}: a record of more than {MAX_LINE} characters ends here. Is a closing quote missing?"
        )
