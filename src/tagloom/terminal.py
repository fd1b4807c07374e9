"""What the command shows: plain text, warnings and notes. Bars are in `progress`."""

import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from tagloom.progress import Progress


def open_console() -> Console:
    """Give the console that results are printed on, without guessing what to colour."""
    return Console(highlight=False)


def warn(text: str) -> None:
    """Print a line beside the results, on standard error."""
    sys.stderr.write(text + "\n")


def note(text: str) -> None:
    """Print a dim line beside the results, on standard error: what was done that nobody asked for by name."""
    Console(stderr=True, highlight=False, style="dim").print(text, markup=False, soft_wrap=True)


def counted(rows: Iterator[Any], total: int, progress: Progress) -> Iterator[Any]:
    """Pass rows on and report progress with each."""
    for number, row in enumerate(rows, start=1):
        yield row
        progress(number, total)
