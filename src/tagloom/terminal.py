"""What the command shows: plain text, warnings, and bars with the time left."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def open_console() -> Console:
    """Give the console that results are printed on, without guessing what to colour."""
    return Console(highlight=False)


def warn(text: str) -> None:
    """Print a line beside the results, on standard error."""
    sys.stderr.write(text + "\n")


def note(text: str) -> None:
    """Print a dim line beside the results, on standard error: what was done that nobody asked for by name."""
    Console(stderr=True, highlight=False, style="dim").print(text, markup=False, soft_wrap=True)


def printable(name: str) -> str:
    """Give a name from somebody's file as text that cannot move the cursor or recolour the terminal."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in name)


@contextmanager
def show_progress(console: Console, what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar with the time left, and give the function that moves it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        bar = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)


def counted(rows: Iterator[Any], total: int, progress: Callable[[int, int], None]) -> Iterator[Any]:
    """Pass rows on and move a bar with each."""
    for number, row in enumerate(rows, start=1):
        yield row
        progress(number, total)
