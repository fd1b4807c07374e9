"""What the command prints: results on standard output, warnings and notes on standard error. Bars are in `progress`.

Names of classes, files and labels come from other people's files. So everything is made harmless on its way out: no
escape codes, no reversed text, no markup, and no name that passes for a message of ours.
"""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from tagloom.wording import printable, printable_lines


class HarmlessConsole(Console):
    """A console that prints text as it is, without what `printable` replaces. Styles and bars are not text.

    Markup is read only where `print` is called with `markup=True`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Lay something out in segments, and make each harmless. A line break is here the end of a line."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment("\n".join(map(printable, segment.text.split("\n"))), segment.style)


def open_console() -> Console:
    """Open the console that results are printed on."""
    return HarmlessConsole()


def print_line(console: Console, text: str) -> None:
    """Print a sentence that contains names. It stays one line, whatever they contain."""
    console.print(printable(text), soft_wrap=True)


def warn(text: str) -> None:
    """Print a message on standard error, apart from the results."""
    sys.stderr.write(printable_lines(text) + "\n")


def note(text: str) -> None:
    """Print a dim message on standard error: something that was chosen for the user."""
    HarmlessConsole(stderr=True, style="dim").print(printable_lines(text), soft_wrap=True)
