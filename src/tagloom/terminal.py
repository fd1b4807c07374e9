"""What the command prints: results on standard output, warnings and notes on standard error. Bars are in `progress`."""

import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from tagloom.progress import Progress


def open_console() -> Console:
    """Open the console that results are printed on; nothing is coloured that does not ask for it."""
    return Console(highlight=False)


def warn(text: str) -> None:
    """Print a line on standard error, apart from the results."""
    sys.stderr.write(text + "\n")


def note(text: str) -> None:
    """Print a dim line on standard error: something that was chosen for the user."""
    Console(stderr=True, highlight=False, style="dim").print(text, markup=False, soft_wrap=True)


def counted(rows: Iterator[Any], total: int, progress: Progress) -> Iterator[Any]:
    """Pass rows on and report progress after each."""
    for number, row in enumerate(rows, start=1):
        yield row
        progress(number, total)
