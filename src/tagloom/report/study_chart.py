"""The chart of a study: a metric of every row with its spread, or a metric against a setting or a cost."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tagloom.report.drawing import (
    EMPTY,
    FAINT,
    INK,
    LARGE,
    MARKERS,
    PALETTE,
    SMALL,
    legible,
    make_figure,
    plain_axes,
    save,
)
from tagloom.studies.outcomes import AXES, Outcome, StudyResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROW = 0.3  # inches per row of a chart of rows
_NAME = 44  # letters of a row's name


def draw_study(result: StudyResult, path: str | os.PathLike[str]) -> Path:
    """Draw the first metric of a study.

    Without a horizontal axis, every row is a dot with a bar of its standard deviation, and a small ring per run. With
    one, rows of the same line are joined, and a row to which the axis does not apply is a broken line across.

    Args:
        result: The study.
        path: The file to write.
    """
    return _draw_rows(result, path) if result.against is None else _draw_lines(result, result.against, path)


def _draw_rows(result: StudyResult, path: str | os.PathLike[str]) -> Path:
    metric = result.metrics[0]
    figure = make_figure(7.6, max(1.9, _ROW * len(result.outcomes) + 1.2))
    figure.suptitle(f"{metric}: {_how_many(result.outcomes)}", fontsize=LARGE, color=INK, x=0.01, ha="left")
    axes = figure.add_subplot()
    plain_axes(axes, "")
    for height, outcome in enumerate(result.outcomes):
        mean, spread = outcome.mean(metric), outcome.spread(metric)
        if spread is not None:
            axes.plot((mean - spread, mean + spread), (height, height), color=PALETTE[0], lw=5, alpha=0.3)
        values = outcome.values(metric)
        axes.scatter(values, [height] * len(values), s=16, facecolor="white", edgecolor=PALETTE[0], lw=0.8, zorder=2)
        axes.scatter(mean, height, s=34, color=PALETTE[0], zorder=3)
        text = f"{mean:.2f}" + ("" if spread is None else f" ± {spread:.2f}")
        axes.annotate(text, (1.01, height), xycoords=("axes fraction", "data"), va="center", fontsize=SMALL, color=INK)
    axes.set_yticks(range(len(result.outcomes)), [legible(outcome.name, _NAME) for outcome in result.outcomes])
    axes.set(ylim=(len(result.outcomes) - 0.4, -0.6), xlabel=f"{metric}, %")
    axes.margins(x=0.08)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(color=EMPTY, lw=0.6)
    axes.set_axisbelow(True)
    return save(figure, path)


def _draw_lines(result: StudyResult, against: str, path: str | os.PathLike[str]) -> Path:
    metric = result.metrics[0]
    lines: dict[str, list[Outcome]] = {}
    for outcome in result.outcomes:
        lines.setdefault(outcome.line, []).append(outcome)
    placed = [outcome for outcome in result.outcomes if outcome.place is not None]
    words = list(dict.fromkeys(str(outcome.place) for outcome in placed))
    numeric = all(isinstance(outcome.place, int | float) for outcome in placed)
    figure = make_figure(7.6, 4.2)
    title = f"{metric} against {AXES.get(against, against)}: {_how_many(result.outcomes)}"
    figure.suptitle(title, fontsize=LARGE, color=INK, x=0.01, ha="left")
    axes = figure.add_subplot()
    plain_axes(axes, "")
    ends: list[tuple[float, float, str, str]] = []  # of each line: height and place of its last point, name, colour
    aside = _Aside(placed, words, numeric, len(lines), apart=against not in AXES)
    for number, (name, rows) in enumerate(lines.items()):
        colour, marker = PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)]
        points = [(row, aside.place(row, number)) for row in rows if row.place is not None]
        points.sort(key=lambda point: point[1])
        for row in rows:
            if row.place is None:
                axes.axhline(row.mean(metric), color=colour, lw=1.2, ls="--")
                ends.append((row.mean(metric), aside.last, row.name, colour))
        if points:
            across, means = [place for _, place in points], [row.mean(metric) for row, _ in points]
            spreads = [row.spread(metric) or 0.0 for row, _ in points]
            axes.errorbar(
                across, means, yerr=spreads, color=colour, marker=marker, ms=6, lw=1.5, capsize=3, elinewidth=0.9
            )
            ends.append((means[-1], across[-1], name, colour))
            if against in AXES:
                _name_points(axes, points, metric)
    if not numeric:
        axes.set_xticks(range(len(words)), [legible(word) for word in words])
    elif against not in AXES:
        axes.set_xticks(sorted({float(outcome.place or 0) for outcome in placed}))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set(xlabel=AXES.get(against, against), ylabel=f"{metric}, %")
    axes.margins(x=0.06, y=0.12)
    axes.grid(color=EMPTY, lw=0.6)
    axes.set_axisbelow(True)
    _name_lines(axes, ends)
    return save(figure, path)


class _Aside:
    """Places points on the horizontal axis, those of different lines a little apart, so that their bars do not hide."""

    def __init__(
        self, placed: Sequence[Outcome], words: Sequence[str], numeric: bool, lines: int, *, apart: bool
    ) -> None:
        self._words, self._numeric = words, numeric
        self._middle = (lines - 1) / 2
        self._step = 0.0
        places = [self.place(row, 0) for row in placed]
        self.last = max(places)
        self._step = 0.008 * (max(places) - min(places)) if apart else 0.0

    def place(self, row: Outcome, line: int) -> float:
        """Give the place of a row that is a point of this line."""
        at = float(row.place or 0) if self._numeric else float(self._words.index(str(row.place)))
        return at + (line - self._middle) * self._step


def _name_points(axes: "Axes", points: Sequence[tuple[Outcome, float]], metric: str) -> None:
    """Say at each point what makes it: the values of the sweep. Costs alone do not tell."""
    for row, place in points:
        text = ", ".join(str(value) for value in row.swept.values()) or row.name
        axes.annotate(
            legible(text),
            (place, row.mean(metric)),
            (6, -6),
            textcoords="offset points",
            ha="left",
            va="top",
            fontsize=SMALL,
            color=INK,
        )


def _name_lines(axes: "Axes", ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write the name of each line at the right edge, joined with its last point; names are moved apart."""
    low, high = axes.get_ylim()
    least = 0.055 * (high - low)  # the height of a line of type
    heights: list[float] = []
    for height, *_ in sorted(ends):
        heights.append(max(height, heights[-1] + least) if heights else height)
    for height, (value, place, name, colour) in zip(heights, sorted(ends), strict=True):
        axes.annotate(
            legible(name, _NAME),
            (place, value),
            (1.02, height),
            xycoords="data",
            textcoords=("axes fraction", "data"),
            va="center",
            fontsize=SMALL,
            color=colour,
            arrowprops={"arrowstyle": "-", "color": FAINT, "lw": 0.7, "shrinkA": 2, "shrinkB": 6},
            annotation_clip=False,
        )


def _how_many(outcomes: Sequence[Outcome]) -> str:
    most = max(len(outcome.runs) for outcome in outcomes)
    return f"mean and standard deviation over {most} seeds" if most > 1 else "one seed each"
