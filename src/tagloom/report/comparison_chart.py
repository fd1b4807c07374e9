"""A comparison of two taggers as a drawing: the change of each label, a scatter of all labels, and gaps of pairs."""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tagloom.evaluation.compare import Change, Comparison
from tagloom.evaluation.label_pairs import Gap
from tagloom.report.drawing import (
    FAINT,
    GAIN,
    INK,
    LARGE,
    LONGEST_NAME,
    LOSS,
    SMALL,
    legible,
    make_figure,
    plain_axes,
    save,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LABELS = 120  # of more labels, only the extremes are drawn
EXTREMES = 30  # labels at either end
_COLUMN = 40  # labels in one column of a chart; more take two
_BARS_WIDTH = 4.4  # inches of a chart of bars with its names
_PLANE = 2.4  # inches of the plane of two labels
_MOST_NAMED = 14  # labels named in a scatter
_SCATTER_POINTS = 290.0  # the least side of the scatter, in points of type


def draw_comparison(
    comparison: Comparison, names: tuple[str, str], path: str | os.PathLike[str], gaps: Sequence[Gap] = ()
) -> Path:
    """Draw two taggers side by side.

    On the left, bars show the change of each label's AP with its 95 % interval, greatest gain on top, pale where the
    interval includes 0. On the right, the APs are plotted against each other, and the labels that changed most are
    named. Below are the gaps between pairs of labels (HSQ, Figures 3, 4 and 7).

    Args:
        comparison: The comparison.
        names: Names of the two taggers.
        path: The file to write.
        gaps: Pairs of labels whose gaps are drawn, as bars and as an arrow in the plane of their two APs.
    """
    first, second = (legible(name) for name in names)
    columns = _columns(comparison.labels)
    listed = 0.17 * max(len(changes) for _, changes in columns) + 0.8
    side = min(max(listed, 4.8), 6.6)
    widths = [*[_BARS_WIDTH] * len(columns), side]
    abreast = int((sum(widths) - _BARS_WIDTH) / _PLANE)
    rows = math.ceil(len(gaps) / abreast)
    heights = [max(listed, side), rows * _PLANE]
    figure = make_figure(sum(widths), (sum(heights) if gaps else heights[0]) + 0.3)
    figure.suptitle(_title(comparison, first, second), fontsize=LARGE, color=INK, x=0.01, ha="left")
    parts = figure.subfigures(2 if gaps else 1, 1, squeeze=False, height_ratios=heights if gaps else None)[:, 0]
    grid = parts[0].add_gridspec(1, len(widths), width_ratios=widths)
    span = _span([change for _, changes in columns for change in changes])
    judged = any(change.interval for change in comparison.labels)
    for index, (title, changes) in enumerate(columns):
        axes = parts[0].add_subplot(grid[0, index])
        plain_axes(axes, title + (" (pale: could be chance)" if judged and not index else ""))
        _draw_changes(axes, changes, span, judged)
        axes.set_xlabel(f"AP of {second} − AP of {first}, points")
    _draw_scatter(parts[0].add_subplot(grid[0, -1]), comparison.labels, first, second, judged)
    if gaps:
        below = parts[1].add_gridspec(rows, 1 + abreast, width_ratios=[_BARS_WIDTH, *[_PLANE] * abreast])
        tall = math.ceil((0.45 * len(gaps) + 0.8) / _PLANE)  # rows of planes next to the bars
        _draw_gaps(parts[1].add_subplot(below[:tall, 0]), gaps, first, second)
        for index, gap in enumerate(gaps):
            row, column = divmod(index, abreast)
            _draw_plane(parts[1].add_subplot(below[row, 1 + column]), gap, names)
    return save(figure, path)


def _title(comparison: Comparison, first: str, second: str) -> str:
    total = comparison.total
    interval = f", 95 % interval {total.interval.low:+.2f} to {total.interval.high:+.2f}" if total.interval else ""
    change = f"({total.difference:+.2f}{interval})".replace("-", "−")
    return (
        f"From {first} to {second}: mAP {total.first:.2f} → {total.second:.2f} {change} on {comparison.images:,} images"
    )


def _columns(changes: Sequence[Change]) -> list[tuple[str, Sequence[Change]]]:
    """Give the titles and labels of the columns of bars: all labels, or both ends if there are too many to read."""
    if len(changes) > MOST_LABELS:
        title = f"Top {EXTREMES} of {len(changes):,} labels"
        return [(title, changes[:EXTREMES]), (f"Bottom {EXTREMES}", changes[-EXTREMES:])]
    if len(changes) > _COLUMN:
        half = math.ceil(len(changes) / 2)
        return [(f"Labels 1 to {half}", changes[:half]), (f"Labels {half + 1} to {len(changes)}", changes[half:])]
    return [("Change of each label", changes)]


def _span(changes: Sequence[Change]) -> tuple[float, float]:
    """Give the range of all differences and intervals, 0 included."""
    ends = [change.difference for change in changes] + [end for change in changes for end in change.interval or ()]
    low, high = min(0.0, *ends), max(0.0, *ends)
    edge = 0.04 * (high - low) or 1.0
    return low - edge, high + edge


def _colour(change: Change) -> str:
    return GAIN if change.difference > 0 else LOSS


def _draw_changes(axes: "Axes", changes: Sequence[Change], span: tuple[float, float], judged: bool) -> None:
    """Draw differences as bars, pale where they are not certain, with thin lines for their intervals."""
    for height, change in enumerate(changes):
        strength = 1.0 if change.sure or not judged else 0.35
        axes.barh(height, change.difference, height=0.72, color=_colour(change), alpha=strength)
        if change.interval:
            axes.plot(change.interval, (height, height), color=INK, lw=0.7, solid_capstyle="butt")
    axes.axvline(0, color=INK, lw=0.8)
    axes.set(xlim=span, ylim=(max(len(changes), 8) - 0.4, -0.6))  # a few bars are not blown up
    axes.set_yticks(range(len(changes)), [legible(change.name) for change in changes])
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=FAINT, lw=0.4, alpha=0.6)
    axes.set_axisbelow(True)


def _draw_scatter(axes: "Axes", changes: Sequence[Change], first: str, second: str, judged: bool) -> None:
    """Plot AP against AP: above the diagonal the second tagger is better. The labels that changed most are named."""
    dots = [(change.first, change.second) for change in changes]
    low, high = draw_square(axes, dots, 0.06)
    edges = [_colour(change) for change in changes]
    faces = [_colour(change) if change.sure or not judged else "white" for change in changes]
    before, after = zip(*dots, strict=True)
    axes.scatter(before, after, s=22, facecolor=faces, edgecolor=edges, lw=0.9, zorder=2)
    for change, aside in _with_room(changes, low, high):
        axes.annotate(
            legible(change.name),
            (change.first, change.second),
            xytext=(5 * aside, 0),
            textcoords="offset points",
            ha="left" if aside > 0 else "right",
            va="center",
            fontsize=SMALL,
            color=INK,
        )
    axes.set(xlabel=f"AP of {first}, %", ylabel=f"AP of {second}, %")
    plain_axes(axes, "Average precision of both" + (" (hollow: could be chance)" if judged else ""))


def _with_room(changes: Sequence[Change], low: float, high: float) -> list[tuple[Change, int]]:
    """List the labels that changed most and whose names fit, each with the side of its name: −1 left, 1 right.

    A name must not cover a dot or another name, nor leave the square from `low` to `high`.
    """
    unit = (high - low) / _SCATTER_POINTS
    dots = np.array([(change.first, change.second) for change in changes])
    boxes: list[tuple[float, float, float]] = []  # left end, right end, and height of the line
    named: list[tuple[Change, int]] = []
    for change in sorted(changes, key=lambda change: -abs(change.difference))[: 2 * _MOST_NAMED]:
        width = 0.6 * SMALL * min(len(change.name), LONGEST_NAME) * unit
        away = -1 if change.difference > 0 else 1  # from the diagonal, where there is most room
        for aside in (away, -away):
            nearer = change.first + 4 * aside * unit
            left, right = sorted((nearer, nearer + aside * width))
            near = np.abs(dots[:, 1] - change.second) < SMALL * unit
            covers = ((dots[:, 0] > left) & (dots[:, 0] < right) & near).any() or any(
                left < end and start < right and abs(line - change.second) < 1.3 * SMALL * unit
                for start, end, line in boxes
            )
            if low <= left and right <= high and not covers and len(named) < _MOST_NAMED:
                boxes.append((left, right, change.second))
                named.append((change, aside))
                break
    return named


def _draw_gaps(axes: "Axes", gaps: Sequence[Gap], first: str, second: str) -> None:
    """Draw how far apart the labels of each pair are, in both taggers."""
    for number, (name, colour) in enumerate(((first, FAINT), (second, INK))):
        heights = [index + (number - 0.5) * 0.38 for index in range(len(gaps))]
        bars = axes.barh(heights, [gap.widths[number] for gap in gaps], height=0.36, color=colour, label=name)
        axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=SMALL, color=INK)
    axes.set_yticks(range(len(gaps)), [" – ".join(legible(name, 16) for name in gap.labels) for gap in gaps])
    axes.set(ylim=(max(len(gaps), 3) - 0.5, -0.5), xlabel="difference of the two APs, points")
    axes.margins(x=0.12)
    plain_axes(axes, "Gaps between labels")
    axes.tick_params(axis="y", length=0)
    axes.legend(fontsize=SMALL, frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0)


def _draw_plane(axes: "Axes", gap: Gap, names: tuple[str, str]) -> None:
    """Draw a dot per tagger: up and to the right is better for both labels, and on the diagonal there is no gap."""
    draw_square(axes, [gap.first, gap.second], 0.3)
    axes.annotate("", gap.second, gap.first, arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 0.8, "shrinkB": 4})
    upwards = 1 if gap.second[1] >= gap.first[1] else -1  # keeps the names clear of the arrow
    for point, name, colour, side in ((gap.first, names[0], FAINT, -upwards), (gap.second, names[1], INK, upwards)):
        axes.scatter(*point, s=30, color=colour, zorder=2)
        axes.annotate(
            legible(name, 12),
            point,
            (0, 6 * side),
            textcoords="offset points",
            ha="center",
            va="bottom" if side > 0 else "top",
            fontsize=SMALL,
            color=INK,
        )
    axes.set(xlabel=f"AP of {legible(gap.labels[0], 16)}, %", ylabel=f"AP of {legible(gap.labels[1], 16)}, %")
    plain_axes(axes, "")


def draw_square(axes: "Axes", points: Sequence[tuple[float, float]], margin: float) -> tuple[float, float]:
    """Give both axes the range of all values with a margin, draw the diagonal, and return the range."""
    values = np.array(points)
    edge = margin * float(np.ptp(values)) + 1.0
    low, high = float(values.min()) - edge, float(values.max()) + edge
    axes.plot((low, high), (low, high), color=FAINT, lw=0.8, zorder=1)
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal", anchor="NW")
    return low, high
