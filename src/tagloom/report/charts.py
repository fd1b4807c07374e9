"""Drawings: small functions that take numbers and names and write one .png, .svg or .pdf file each.

Figures are plain objects: nothing here touches matplotlib's global state, so drawing works in any thread, without a
screen, and beside whatever the caller draws. Colours are of Okabe and Ito's set, and viridis in heat maps, which
colour-blind readers can tell apart; where two colours oppose, place says the same.
"""

import math
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagloom.errors import DataError, MissingExtraError, TagloomError
from tagloom.inference.comparison import Change, Comparison, Gap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
MOST_LABELS = 120  # of more labels only the extremes are drawn
EXTREMES = 30  # labels at either end
_COLUMN = 40  # labels in one column of a chart; more take two
_BARS_WIDTH = 4.4  # inches of a chart of bars with its names
_PLANE = 2.4  # inches of the plane of two labels
_MOST_NAMED = 14  # labels named in a scatter
_SCATTER_POINTS = 290.0  # the least side of the scatter, in points of type
_LONGEST_NAME = 28
_LONGEST_SIDE = 18.0  # inches of a heat map
_DECADES = 1e4  # reach of a logarithmic scale; what is smaller yet is of one colour
_LEAST_TICK = 0.12  # inches that a named row or column of a heat map needs
_APART = 0.4  # cells between a heat map and its last row or column

_GAIN, _LOSS, _INK, _FAINT, _EMPTY = "#0072B2", "#D55E00", "#222222", "#b8b8b8", "#e4e4e4"
_SMALL, _MIDDLE, _LARGE = 7.5, 9.0, 11.0  # sizes of type, in points


def check_drawable(path: str | os.PathLike[str]) -> None:
    """Refuse a file that could not be drawn, before any work goes into what it should show."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise TagloomError(f"{path}: drawings are written as {', '.join(SUFFIXES)}; end the name in one of these.")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("drawing", "plot")


def save(figure: "Figure", path: str | os.PathLike[str]) -> Path:
    """Write a figure in the format that the path's suffix names; missing folders are made."""
    check_drawable(path)
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, format=target.suffix[1:].lower(), dpi=150, facecolor="white")
    except OSError as error:
        raise TagloomError(f"{target}: cannot be written ({error}).") from error
    return target


def draw_comparison(
    comparison: Comparison, names: tuple[str, str], path: str | os.PathLike[str], gaps: Sequence[Gap] = ()
) -> Path:
    """Draw two taggers side by side.

    On the left stand bars of every label's change of AP with its 95 % interval, the greatest gain on top, pale where
    the interval holds 0. On the right stand the APs against each other, with the labels that changed most by name.
    Below stand the gaps that were asked for (HSQ, Figures 3, 4 and 7).

    Args:
        comparison: What was found.
        names: What the two taggers are called.
        path: The file to write.
        gaps: Pairs of labels, whose gaps are drawn as bars and as a move in the plane of their two APs.
    """
    first, second = (_legible(name) for name in names)
    columns = _columns(comparison.labels)
    listed = 0.17 * max(len(changes) for _, changes in columns) + 0.8
    side = min(max(listed, 4.8), 6.6)
    widths = [*[_BARS_WIDTH] * len(columns), side]
    abreast = int((sum(widths) - _BARS_WIDTH) / _PLANE)
    rows = math.ceil(len(gaps) / abreast)
    heights = [max(listed, side), rows * _PLANE]
    figure = _figure(sum(widths), (sum(heights) if gaps else heights[0]) + 0.3)
    figure.suptitle(_title(comparison, first, second), fontsize=_LARGE, color=_INK, x=0.01, ha="left")
    parts = figure.subfigures(2 if gaps else 1, 1, squeeze=False, height_ratios=heights if gaps else None)[:, 0]
    grid = parts[0].add_gridspec(1, len(widths), width_ratios=widths)
    span = _span([change for _, changes in columns for change in changes])
    judged = any(change.interval for change in comparison.labels)
    for place, (title, changes) in enumerate(columns):
        axes = parts[0].add_subplot(grid[0, place])
        _plain(axes, title + (" (pale: could be chance)" if judged and not place else ""))
        _draw_changes(axes, changes, span, judged)
        axes.set_xlabel(f"AP of {second} − AP of {first}, points")
    _draw_scatter(parts[0].add_subplot(grid[0, -1]), comparison.labels, first, second, judged)
    if gaps:
        below = parts[1].add_gridspec(rows, 1 + abreast, width_ratios=[_BARS_WIDTH, *[_PLANE] * abreast])
        tall = math.ceil((0.45 * len(gaps) + 0.8) / _PLANE)  # rows of planes that the bars stand beside
        _draw_gaps(parts[1].add_subplot(below[:tall, 0]), gaps, first, second)
        for place, gap in enumerate(gaps):
            _draw_plane(parts[1].add_subplot(below[place // abreast, 1 + place % abreast]), gap, names)
    return save(figure, path)


def draw_heatmap(
    values: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    path: str | os.PathLike[str],
    *,
    log: bool = False,
    title: str = "",
    scale: str = "",
    last_row_apart: bool = False,
    last_column_apart: bool = False,
) -> Path:
    """Draw a table of numbers as colours, the lighter the greater: experts' load, affinities of labels.

    Args:
        values: `(rows, columns)`; NaN leaves a cell grey, and so does a value of 0 or less on a logarithmic scale.
        rows: A name per row, the first on top.
        columns: A name per column.
        path: The file to write.
        log: Colours by the logarithm.
        title: What it shows.
        scale: What the colours measure.
        last_row_apart: Set the last row off by a thin gap, for a mean or a sum.
        last_column_apart: The same for the last column.
    """
    cells = _checked(values, rows, columns, log)
    side = min(0.2 if max(cells.shape) <= 60 else 0.14, _LONGEST_SIDE / max(cells.shape))
    width, height = max(side * len(columns), 2.0), max(side * len(rows), 1.2)
    margins = 0.075 * _longest(rows) + 1.4, 0.075 * _longest(columns) + (0.6 if title else 0.3)
    figure = _figure(width + margins[0], height + margins[1])
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize

    axes = figure.add_subplot()
    least, most = float(cells.min()), float(cells.max())
    norm = LogNorm(max(least, most / _DECADES), most) if log else Normalize(least, most)
    colours = colormaps["viridis"].with_extremes(bad=_EMPTY)
    for down in _blocks(len(rows), last_row_apart):
        for across in _blocks(len(columns), last_column_apart):
            mesh = axes.pcolormesh(
                across.edges, down.edges, cells[down.cells, across.cells], norm=norm, cmap=colours, rasterized=True
            )
    axes.autoscale_view(tight=True)
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    _name_ticks(axes.yaxis, rows, last_row_apart, height)
    _name_ticks(axes.xaxis, columns, last_column_apart, width, rotation=90)
    axes.set_title(_legible(title, 120), fontsize=_LARGE, color=_INK, loc="left")
    bar = figure.colorbar(
        mesh,
        ax=axes,
        fraction=min(0.05, 0.25 / width),
        pad=0.02,
        aspect=max(10, height * 6),
        extend="min" if norm.vmin != least else "neither",
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=_SMALL, length=2)
    bar.set_label(_legible(scale, 60), fontsize=_MIDDLE, color=_INK)
    return save(figure, path)


def _figure(width: float, height: float) -> "Figure":
    """A figure of so many inches, that makes room for its labels by itself."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError("drawing", "plot") from error
    return Figure(figsize=(width, height), layout="constrained")


def _legible(name: str, longest: int = _LONGEST_NAME) -> str:
    """A name from somebody's table as one short line, in which a dollar sign starts no formula."""
    line = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in name)
    short = line if len(line) <= longest else line[: longest - 1] + "…"
    return short.replace("$", r"\$")


def _plain(axes: "Axes", title: str) -> None:
    """Take away what carries no information, and put the title over the left edge."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_FAINT)
    axes.tick_params(labelsize=_SMALL, colors=_INK, length=2, color=_FAINT)
    axes.xaxis.label.set(size=_MIDDLE, color=_INK)
    axes.yaxis.label.set(size=_MIDDLE, color=_INK)
    axes.set_title(title, fontsize=_MIDDLE, color=_INK, loc="left", fontweight="bold")


def _title(comparison: Comparison, first: str, second: str) -> str:
    total = comparison.total
    interval = f", 95 % interval {total.interval.low:+.2f} to {total.interval.high:+.2f}" if total.interval else ""
    change = f"({total.difference:+.2f}{interval})".replace("-", "−")
    return (
        f"From {first} to {second}: mAP {total.first:.2f} → {total.second:.2f} {change} on {comparison.images:,} images"
    )


def _columns(changes: Sequence[Change]) -> list[tuple[str, Sequence[Change]]]:
    """Titles and labels of the columns of bars: all labels, or both ends where they are too many to read."""
    if len(changes) > MOST_LABELS:
        title = f"Top {EXTREMES} of {len(changes):,} labels"
        return [(title, changes[:EXTREMES]), (f"Bottom {EXTREMES}", changes[-EXTREMES:])]
    if len(changes) > _COLUMN:
        half = math.ceil(len(changes) / 2)
        return [(f"Labels 1 to {half}", changes[:half]), (f"Labels {half + 1} to {len(changes)}", changes[half:])]
    return [("Change of each label", changes)]


def _span(changes: Sequence[Change]) -> tuple[float, float]:
    """The reach of all differences and intervals, and of 0."""
    ends = [change.difference for change in changes] + [end for change in changes for end in change.interval or ()]
    low, high = min(0.0, *ends), max(0.0, *ends)
    edge = 0.04 * (high - low) or 1.0
    return low - edge, high + edge


def _colour(change: Change) -> str:
    return _GAIN if change.difference > 0 else _LOSS


def _draw_changes(axes: "Axes", changes: Sequence[Change], span: tuple[float, float], judged: bool) -> None:
    """Bars of the differences, strong where they are sure, with thin lines for their intervals."""
    for place, change in enumerate(changes):
        strength = 1.0 if change.sure or not judged else 0.35
        axes.barh(place, change.difference, height=0.72, color=_colour(change), alpha=strength)
        if change.interval:
            axes.plot(change.interval, (place, place), color=_INK, lw=0.7, solid_capstyle="butt")
    axes.axvline(0, color=_INK, lw=0.8)
    axes.set(xlim=span, ylim=(max(len(changes), 8) - 0.4, -0.6))  # a few bars are not blown up
    axes.set_yticks(range(len(changes)), [_legible(change.name) for change in changes])
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=_FAINT, lw=0.4, alpha=0.6)
    axes.set_axisbelow(True)


def _draw_scatter(axes: "Axes", changes: Sequence[Change], first: str, second: str, judged: bool) -> None:
    """AP against AP: over the diagonal the second tagger is better. The labels that changed most are named."""
    dots = [(change.first, change.second) for change in changes]
    low, high = _square(axes, dots, 0.06)
    edges = [_colour(change) for change in changes]
    faces = [_colour(change) if change.sure or not judged else "white" for change in changes]
    before, after = zip(*dots, strict=True)
    axes.scatter(before, after, s=22, facecolor=faces, edgecolor=edges, lw=0.9, zorder=2)
    for change, aside in _with_room(changes, low, high):
        axes.annotate(
            _legible(change.name),
            (change.first, change.second),
            xytext=(5 * aside, 0),
            textcoords="offset points",
            ha="left" if aside > 0 else "right",
            va="center",
            fontsize=_SMALL,
            color=_INK,
        )
    axes.set(xlabel=f"AP of {first}, %", ylabel=f"AP of {second}, %")
    _plain(axes, "Average precision of both" + (" (hollow: could be chance)" if judged else ""))


def _with_room(changes: Sequence[Change], low: float, high: float) -> list[tuple[Change, int]]:
    """The labels that changed most whose names fit in, each with the side it is named on: −1 left, 1 right.

    A name may cover neither a dot nor another name, nor leave the square from `low` to `high`.
    """
    unit = (high - low) / _SCATTER_POINTS
    dots = np.array([(change.first, change.second) for change in changes])
    boxes: list[tuple[float, float, float]] = []  # from left to right, and the height of the line
    named: list[tuple[Change, int]] = []
    for change in sorted(changes, key=lambda change: -abs(change.difference))[: 2 * _MOST_NAMED]:
        width = 0.6 * _SMALL * min(len(change.name), _LONGEST_NAME) * unit
        away = -1 if change.difference > 0 else 1  # from the diagonal, where there is most room
        for aside in (away, -away):
            nearer = change.first + 4 * aside * unit
            left, right = sorted((nearer, nearer + aside * width))
            near = np.abs(dots[:, 1] - change.second) < _SMALL * unit
            covers = ((dots[:, 0] > left) & (dots[:, 0] < right) & near).any() or any(
                left < end and start < right and abs(line - change.second) < 1.3 * _SMALL * unit
                for start, end, line in boxes
            )
            if low <= left and right <= high and not covers and len(named) < _MOST_NAMED:
                boxes.append((left, right, change.second))
                named.append((change, aside))
                break
    return named


def _draw_gaps(axes: "Axes", gaps: Sequence[Gap], first: str, second: str) -> None:
    """How far the labels of each pair lie apart, in one tagger and in the other."""
    for number, (name, colour) in enumerate(((first, _FAINT), (second, _INK))):
        places = [place + (number - 0.5) * 0.38 for place in range(len(gaps))]
        bars = axes.barh(places, [gap.widths[number] for gap in gaps], height=0.36, color=colour, label=name)
        axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=_SMALL, color=_INK)
    axes.set_yticks(range(len(gaps)), [" – ".join(_legible(name, 16) for name in gap.labels) for gap in gaps])
    axes.set(ylim=(max(len(gaps), 3) - 0.5, -0.5), xlabel="difference of the two APs, points")
    axes.margins(x=0.12)
    _plain(axes, "Gaps between labels")
    axes.tick_params(axis="y", length=0)
    axes.legend(fontsize=_SMALL, frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0)


def _draw_plane(axes: "Axes", gap: Gap, names: tuple[str, str]) -> None:
    """One dot per tagger: up and to the right is better for both labels, and the diagonal is no gap at all."""
    _square(axes, [gap.first, gap.second], 0.3)
    axes.annotate("", gap.second, gap.first, arrowprops={"arrowstyle": "-|>", "color": _INK, "lw": 0.8, "shrinkB": 4})
    upwards = 1 if gap.second[1] >= gap.first[1] else -1  # the names stand clear of the arrow
    for point, name, colour, side in ((gap.first, names[0], _FAINT, -upwards), (gap.second, names[1], _INK, upwards)):
        axes.scatter(*point, s=30, color=colour, zorder=2)
        axes.annotate(
            _legible(name, 12),
            point,
            (0, 6 * side),
            textcoords="offset points",
            ha="center",
            va="bottom" if side > 0 else "top",
            fontsize=_SMALL,
            color=_INK,
        )
    axes.set(xlabel=f"AP of {_legible(gap.labels[0], 16)}, %", ylabel=f"AP of {_legible(gap.labels[1], 16)}, %")
    _plain(axes, "")


def _square(axes: "Axes", points: Sequence[tuple[float, float]], margin: float) -> tuple[float, float]:
    """Give both axes the reach of all values with a margin, and draw the diagonal; returns the reach."""
    values = np.array(points)
    edge = margin * float(np.ptp(values)) + 1.0
    low, high = float(values.min()) - edge, float(values.max()) + edge
    axes.plot((low, high), (low, high), color=_FAINT, lw=0.8, zorder=1)
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal", anchor="NW")
    return low, high


class _Block(NamedTuple):
    """Neighbouring rows or columns of a heat map, and where their edges lie."""

    cells: slice
    edges: NDArray[np.float64]


def _blocks(count: int, last_apart: bool) -> list[_Block]:
    if not last_apart or count < 2:
        return [_Block(slice(0, count), np.arange(count + 1.0))]
    return [
        _Block(slice(0, count - 1), np.arange(count * 1.0)),
        _Block(slice(count - 1, count), np.array([count - 1.0, count]) + _APART),
    ]


def _name_ticks(axis: "Axis", names: Sequence[str], last_apart: bool, inches: float, rotation: float = 0) -> None:
    """Name rows or columns at their centres, every second or third only where they are too narrow for type."""
    centres = np.concatenate([(block.edges[:-1] + block.edges[1:]) / 2 for block in _blocks(len(names), last_apart)])
    step = math.ceil(len(names) * _LEAST_TICK / inches)
    axis.set_ticks(centres[::step], [_legible(name) for name in names[::step]], rotation=rotation)
    axis.set_tick_params(labelsize=_SMALL, length=0, labelcolor=_INK)


def _checked(values: ArrayLike, rows: Sequence[str], columns: Sequence[str], log: bool) -> Any:
    """The values as a masked array of float64, `(rows, columns)`, once they are seen to fit their names."""
    cells = np.asarray(values, np.float64)
    if cells.shape != (len(rows), len(columns)) or not cells.size:
        raise DataError(
            f"a heat map of {len(rows)} row and {len(columns)} column names was given values of shape {cells.shape}: "
            "give one row of values per row name, with one value per column name."
        )
    if np.isinf(cells).any():
        raise DataError("a heat map cannot colour an infinite value; use NaN for a cell that has none.")
    shown = np.ma.masked_where(np.isnan(cells) | ((cells <= 0) & log), cells)
    if not shown.count():
        raise DataError(f"a heat map needs at least one value{' over 0 for a logarithmic scale' if log else ''}.")
    return shown


def _longest(names: Sequence[str]) -> int:
    return min(max(map(len, names)), _LONGEST_NAME)
