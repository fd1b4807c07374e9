"""Progress of long work: the callback type, and how progress is shown.

A terminal shows a bar. Elsewhere (`nohup`, CI, a notebook, a log file) a plain line is printed every half minute, so
that nobody has to guess whether 82,000 pictures are still being read.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.text import Text

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of things done and the total number."""

SECONDS_BETWEEN_LINES = 30.0


class RateColumn(ProgressColumn):
    """Shows how much is done per second."""

    def render(self, task: Task) -> Text:
        """Show the rate, once it is known."""
        return Text(f"{task.speed:,.1f}/s" if task.speed else "")


def no_progress(done: int, total: int) -> None:
    """Show nothing."""


class ProgressDisplay:
    """Shows the progress of work: a bar on a terminal, plain lines elsewhere. Use it as a context manager.

    Args:
        console: Where to show it; None for silence.
        transient: Whether bars vanish when the work is done.
        clock: Gives the time in seconds; tests bring their own.
    """

    def __init__(
        self, console: Console | None, *, transient: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._clock = clock
        self._bars = Bars(
            TextColumn("{task.description:<28}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            RateColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=console,
            disable=console is None or not console.is_terminal,
            transient=transient,
        )
        self._what = ""
        self._bar: Any = None
        self._bar_of: dict[str, Any] = {}
        self._started = self._said = clock()
        self._first = 0

    def __enter__(self) -> "ProgressDisplay":
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def update(self, what: str, done: int, total: int, note: str = "") -> None:
        """Show how far a piece of work is.

        Args:
            what: Names the work. Another name begins another piece; a name that was shown before moves its bar again.
            done: How much is done.
            total: How much there is to do.
            note: Something to show next to it, for example the loss.
        """
        if self._bar is None or what != self._what:
            self._what, self._first, self._started = what, done, self._clock()
            if what not in self._bar_of:
                self._bar_of[what] = self._bars.add_task(what, total=total, note=note)
            self._bar = self._bar_of[what]
            if any(task.finished for task in self._bars.tasks if task.id == self._bar):
                self._bars.reset(self._bar, total=total, completed=done)
        self._bars.update(self._bar, completed=done, total=total, note=note)
        if self._console is not None and not self._console.is_terminal:
            self._say(done, total, note)

    def _say(self, done: int, total: int, note: str) -> None:
        """Print a plain line, unless the last one was printed a moment ago."""
        now = self._clock()
        if self._console is None or now - self._said < SECONDS_BETWEEN_LINES:
            return
        self._said = now
        line = progress_line(self._what, done, total, seconds=now - self._started, before=self._first)
        self._console.print(f"{line}  {note}" if note else line, markup=False, soft_wrap=True)


def progress_line(what: str, done: int, total: int, *, seconds: float, before: int = 0) -> str:
    """Describe in one line how much work is done, its rate and the time left.

    Args:
        what: Names the work.
        done: How much is done.
        total: How much there is in total.
        seconds: How long it has taken.
        before: How much of `done` was already done before these seconds.

    >>> progress_line("features", 1500, 9000, seconds=10.0)
    'features: 1,500 of 9,000, 150.0/s, 0:50 left'
    """
    text = f"{what}: {done:,} of {total:,}"
    rate = (done - before) / seconds if seconds > 0 else 0.0
    if rate <= 0:
        return text
    if done >= total:
        return f"{text}, {rate:,.1f}/s, done in {_clock(seconds)}"
    return f"{text}, {rate:,.1f}/s, {_clock((total - done) / rate)} left"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def show_progress(console: Console | None, what: str) -> Iterator[Progress]:
    """Show one piece of work, and give the callback that updates it."""
    with ProgressDisplay(console, transient=True) as display:
        yield lambda done, total: display.update(what, done, total)
