"""Heat maps: a table of numbers as colours."""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tagloom.errors import DataError
from tagloom.report.drawing import EMPTY, INK, LARGE, MIDDLE, SMALL, legible, longest_name, make_figure, save

if TYPE_CHECKING:
    from matplotlib.axis import Axis

_LONGEST_SIDE = 18.0  # inches of a heat map
_DECADES = 1e4  # range of a logarithmic scale; smaller values share one colour
_LEAST_TICK = 0.12  # inches that a named row or column needs
_APART = 0.4  # cells between a heat map and its last row or column


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
    """Draw a table of numbers as colours, lighter for greater: the load of experts, affinities of labels.

    Args:
        values: `(rows, columns)`; NaN leaves a cell grey, and so does a value of 0 or less on a logarithmic scale.
        rows: Names of the rows, the first on top.
        columns: Names of the columns.
        path: The file to write.
        log: Use a logarithmic scale.
        title: What it shows.
        scale: What the colours measure.
        last_row_apart: Separate the last row by a thin gap, for a mean or a sum.
        last_column_apart: The same for the last column.
    """
    cells = _checked(values, rows, columns, log)
    side = min(0.2 if max(cells.shape) <= 60 else 0.14, _LONGEST_SIDE / max(cells.shape))
    width, height = max(side * len(columns), 2.0), max(side * len(rows), 1.2)
    margins = 0.075 * longest_name(rows) + 1.4, 0.075 * longest_name(columns) + (0.6 if title else 0.3)
    figure = make_figure(width + margins[0], height + margins[1])
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize

    axes = figure.add_subplot()
    least, most = float(cells.min()), float(cells.max())
    norm = LogNorm(max(least, most / _DECADES), most) if log else Normalize(least, most)
    colours = colormaps["viridis"].with_extremes(bad=EMPTY)
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
    axes.set_title(legible(title, 120), fontsize=LARGE, color=INK, loc="left")
    bar = figure.colorbar(
        mesh,
        ax=axes,
        fraction=min(0.05, 0.25 / width),
        pad=0.02,
        aspect=max(10, height * 6),
        extend="min" if norm.vmin != least else "neither",
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL, length=2)
    bar.set_label(legible(scale, 60), fontsize=MIDDLE, color=INK)
    return save(figure, path)


class _Block(NamedTuple):
    """Neighbouring rows or columns of a heat map, and their edges."""

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
    """Name rows or columns at their centres; only every second or third if they are too narrow for text."""
    centres = np.concatenate([(block.edges[:-1] + block.edges[1:]) / 2 for block in _blocks(len(names), last_apart)])
    step = math.ceil(len(names) * _LEAST_TICK / inches)
    axis.set_ticks(centres[::step], [legible(name) for name in names[::step]], rotation=rotation)
    axis.set_tick_params(labelsize=SMALL, length=0, labelcolor=INK)


def _checked(values: ArrayLike, rows: Sequence[str], columns: Sequence[str], log: bool) -> Any:
    """Check that values fit their names, and give them as a masked array of float64, `(rows, columns)`."""
    cells = np.asarray(values, np.float64)
    if cells.shape != (len(rows), len(columns)) or not cells.size:
        raise DataError(
            f"a heat map of {len(rows)} row and {len(columns)} column names was given values of shape {cells.shape}: "
            "give one row of values per row name, with one value per column name."
        )
    if np.isinf(cells).any():
        raise DataError("a heat map cannot colour an infinite value; use NaN for an empty cell.")
    shown = np.ma.masked_where(np.isnan(cells) | ((cells <= 0) & log), cells)
    if not shown.count():
        raise DataError(f"a heat map needs at least one value{' over 0 for a logarithmic scale' if log else ''}.")
    return shown
