"""Several taggers, each compared with the first, as a drawing (HSQ, Figures 3, 4 and 7)."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tagloom.evaluation.compare import Comparison
from tagloom.evaluation.label_pairs import Gap, count_pairs
from tagloom.report.comparison_chart import draw_square
from tagloom.report.drawing import (
    EMPTY,
    FAINT,
    GAIN,
    INK,
    LARGE,
    LOSS,
    MARKERS,
    PALETTE,
    SMALL,
    legible,
    make_figure,
    plain_axes,
    save,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PLANE = 3.1  # inches of the plane of two labels
_BARS = 5.0  # inches of a chart of bars with the names of taggers


def draw_methods(
    comparisons: Sequence[Comparison],
    names: Sequence[str],
    path: str | os.PathLike[str],
    gaps: Sequence[Sequence[Gap]] = ((),),
    *,
    least: float = 0.0,
) -> Path:
    """Draw several taggers next to each other.

    On top are mAP, with the 95 % interval of the difference from the first tagger, and how pairs of labels changed
    from the first tagger to each other one. Below, in a row for every pair of labels, are the distance between their
    APs in each tagger, and each tagger as a dot in the plane of both APs: up and to the right is better for both.

    Args:
        comparisons: One for each tagger after the first.
        names: Names of all taggers.
        path: The file to write.
        gaps: For each comparison the gaps between pairs of labels, the same pairs in all.
        least: A label has gained or lost if it changed by more than this many points.
    """
    pairs = list(zip(*gaps, strict=True))
    top = max(1.9, 0.3 * len(names) + 1.1)
    row = max(_PLANE, 0.3 * len(names) + 1.0)
    figure = make_figure(2 * _BARS, top + row * len(pairs) + 0.3)
    first = comparisons[0]
    title = f"{len(names)} taggers on {first.images:,} images and {len(first.labels):,} labels"
    figure.suptitle(title, fontsize=LARGE, color=INK, x=0.01, ha="left")
    parts = figure.subfigures(1 + len(pairs), 1, squeeze=False, height_ratios=[top, *[row] * len(pairs)])[:, 0]
    shown = [legible(name) for name in names]
    left, right = parts[0].subplots(1, 2)
    _draw_totals(left, comparisons, shown)
    _draw_pair_counts(right, comparisons, shown, least)
    for part, own in zip(parts[1:], pairs, strict=True):
        points = [own[0].first, *(gap.second for gap in own)]
        labels = legible(own[0].labels[0], 16), legible(own[0].labels[1], 16)
        left, right = part.subplots(1, 2)
        _draw_widths(left, points, labels, shown)
        _draw_plane(right, points, labels, shown)
    return save(figure, path)


def _draw_totals(axes: "Axes", comparisons: Sequence[Comparison], names: Sequence[str]) -> None:
    """Draw mAP as dots, and where it would be at either end of the interval of its difference from the first."""
    reference = comparisons[0].total.first
    _rows(axes, names, "mAP (bar: 95 % interval of the difference)")
    axes.axvline(reference, color=FAINT, lw=0.8)
    values = [reference, *(comparison.total.second for comparison in comparisons)]
    for height, value in enumerate(values):
        interval = comparisons[height - 1].total.interval if height else None
        if interval is not None:
            ends = (reference + interval.low, reference + interval.high)
            axes.plot(ends, (height, height), color=_colour(height), lw=5, alpha=0.3, solid_capstyle="butt")
        axes.scatter(value, height, s=36, color=_colour(height), marker=_marker(height), zorder=2)
        axes.annotate(
            f"{value:.2f}", (1.0, height), (4, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
            va="center", fontsize=SMALL, color=INK,
        )  # fmt: skip
    axes.margins(x=0.1)
    axes.set_xlabel("mAP, %")


def _draw_pair_counts(axes: "Axes", comparisons: Sequence[Comparison], names: Sequence[str], least: float) -> None:
    """Draw how the pairs of labels changed from the first tagger, as one bar of three parts for each other one."""
    counts = [count_pairs(comparison, least) for comparison in comparisons]
    _rows(axes, names[1:], "")
    parts = (
        ("improved", [count.improved for count in counts], GAIN, "white"),
        ("apart", [count.apart for count in counts], EMPTY, INK),
        ("worsened", [count.worsened for count in counts], LOSS, "white"),
    )
    starts = [0] * len(counts)
    every = max(1, *(count.improved + count.apart + count.worsened for count in counts))
    for name, values, colour, ink in parts:
        bars = axes.barh(range(len(counts)), values, left=starts, height=0.6, color=colour, label=name)
        texts = [f"{value:,}" if value > 0.06 * every else "" for value in values]
        axes.bar_label(bars, texts, label_type="center", fontsize=SMALL, color=ink)
        starts = [start + value for start, value in zip(starts, values, strict=True)]
    axes.set_xlabel(f"pairs of labels, against {names[0]}")
    axes.legend(fontsize=SMALL, frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.2)


def _draw_widths(
    axes: "Axes", points: Sequence[tuple[float, float]], labels: tuple[str, str], names: Sequence[str]
) -> None:
    """Draw how far apart the two labels are in each tagger."""
    _rows(axes, names, f"Gap between {labels[0]} and {labels[1]}")
    colours = [_colour(number) for number in range(len(names))]
    bars = axes.barh(range(len(names)), [abs(one - two) for one, two in points], height=0.6, color=colours)
    axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=SMALL, color=INK)
    axes.margins(x=0.12)
    axes.set_xlabel("difference of the two APs, points")


def _draw_plane(
    axes: "Axes", points: Sequence[tuple[float, float]], labels: tuple[str, str], names: Sequence[str]
) -> None:
    """Draw a dot per tagger: up and to the right is better for both labels, and on the diagonal there is no gap."""
    draw_square(axes, points, 0.15)
    for number, (point, name) in enumerate(zip(points, names, strict=True)):
        axes.scatter(*point, s=42, color=_colour(number), marker=_marker(number), zorder=2, label=name)
    axes.set(xlabel=f"AP of {labels[0]}, %", ylabel=f"AP of {labels[1]}, %")
    plain_axes(axes, "")
    axes.legend(fontsize=SMALL, frameon=False, loc="upper left", bbox_to_anchor=(1.02, 1), borderaxespad=0)


def _rows(axes: "Axes", names: Sequence[str], title: str) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(max(len(names), 3) - 0.4, -0.6)  # a few bars are not blown up
    plain_axes(axes, title)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=EMPTY, lw=0.6)
    axes.set_axisbelow(True)


def _colour(number: int) -> str:
    return PALETTE[number % len(PALETTE)]


def _marker(number: int) -> str:
    return MARKERS[number % len(MARKERS)]
