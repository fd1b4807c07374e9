"""What all drawings share: files, figures, colours and legible names.

Figures are plain objects: nothing here touches matplotlib's global state, so drawing works in any thread, without a
screen, and next to whatever the caller draws. Colours are from Okabe and Ito's set, which colour-blind readers can tell
apart, and shape or position always says the same as colour.
"""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tagloom.errors import MissingExtraError, TagloomError
from tagloom.files import whole_file
from tagloom.wording import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
LONGEST_NAME = 28
GAIN, LOSS, INK, FAINT, EMPTY = "#0072B2", "#D55E00", "#222222", "#b8b8b8", "#e4e4e4"
# For lines and groups, each with a marker of its own; the last colours are for few, since they are paler.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SMALL, MIDDLE, LARGE = 7.5, 9.0, 11.0  # sizes of type, in points


def check_drawable(path: str | os.PathLike[str]) -> None:
    """Refuse a file that cannot be drawn, before any work on its content."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise TagloomError(f"{path}: drawings are written as {', '.join(SUFFIXES)}; use one of these suffixes.")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("drawing", "plot")


def save(figure: "Figure", path: str | os.PathLike[str]) -> Path:
    """Write a figure in the format of the path's suffix; missing folders are made."""
    check_drawable(path)
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as partial:
            figure.savefig(partial, format=target.suffix[1:].lower(), dpi=150, facecolor="white")
    except OSError as error:
        raise TagloomError(f"{target}: cannot be written ({error}).") from error
    return target


def make_figure(width: float, height: float) -> "Figure":
    """Make a figure, sized in inches, that makes room for its labels."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError("drawing", "plot") from error
    return Figure(figsize=(width, height), layout="constrained")


def legible(name: str, longest: int = LONGEST_NAME) -> str:
    """Shorten a name from somebody's table to one line, in which a dollar sign starts no formula."""
    line = printable(name)
    short = line if len(line) <= longest else line[: longest - 1] + "…"
    return short.replace("$", r"\$")


def plain_axes(axes: "Axes", title: str) -> None:
    """Remove what carries no information, and put the title above the left edge."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(labelsize=SMALL, colors=INK, length=2, color=FAINT)
    axes.xaxis.label.set(size=MIDDLE, color=INK)
    axes.yaxis.label.set(size=MIDDLE, color=INK)
    axes.set_title(title, fontsize=MIDDLE, color=INK, loc="left", fontweight="bold")


def longest_name(names: Sequence[str]) -> int:
    """Count the letters of the longest name as it is drawn."""
    return min(max(map(len, names)), LONGEST_NAME)
