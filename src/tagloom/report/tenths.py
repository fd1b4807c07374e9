"""The best and the worst tenth of the classes in several taggers: tables in the terminal, and a drawing."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from tagloom.evaluation.tenths import Tenths
from tagloom.report.drawing import EMPTY, INK, LARGE, MARKERS, PALETTE, SMALL, legible, make_figure, plain_axes, save
from tagloom.report.methods import letters
from tagloom.report.table import as_text, make_table
from tagloom.wording import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ENDS = ((True, "best"), (False, "worst"))


def render_tenths(tenths: Tenths, runs: Sequence[str], console: Console) -> None:
    """Print the classes in the best and in the worst tenth of any tagger, with their AP in all of them."""
    names = letters(len(runs))
    for name, run in zip(names, runs, strict=True):
        console.print(Text(f"{name}  {printable(run)}"), soft_wrap=True)
    for best, word in _ENDS:
        members = tenths.members(best)
        table = make_table(
            f"The {word} tenth of the classes: {tenths.size} of {len(tenths.classes)} by average precision",
            *("class", ">positives", ">taggers", *(f">{name}" for name in names)),
            caption=f"AP in percent, bold in the {word} tenth of that tagger; taggers: in how many tenths it is",
        )
        for column in tenths.columns(best):
            cells = [
                Text(f"{value:.2f}", "bold" if inside else "dim")
                for value, inside in zip(tenths.precision[:, column], members[:, column], strict=True)
            ]
            counts = f"{tenths.positives[column]:,}", str(int(members[:, column].sum()))
            table.add_row(as_text(tenths.classes[column]), *counts, *cells)
        console.print(table)


def draw_tenths(tenths: Tenths, names: Sequence[str], path: str | os.PathLike[str]) -> Path:
    """Draw the classes in the best and in the worst tenth of any tagger (layover, Figure 3).

    A sign per tagger, filled where the class is in that tagger's tenth and hollow where it is not. Classes that most
    taggers have in their tenth are on top.

    Args:
        tenths: What to draw.
        names: Names of the taggers.
        path: The file to write.
    """
    rows = [tenths.columns(best) for best, _ in _ENDS]
    figure = make_figure(10.0, 0.26 * max(map(len, rows)) + 1.7)
    title = f"Average precision of the best and the worst {tenths.size} of {len(tenths.classes)} classes"
    figure.suptitle(title, fontsize=LARGE, color=INK, x=0.01, ha="left")
    panels = figure.subplots(1, 2)
    for axes, columns, (best, word) in zip(panels, rows, _ENDS, strict=True):
        plain_axes(axes, f"{word.capitalize()} tenth (filled: in the tagger's own)")
        _draw_end(axes, tenths, columns, best, names)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=4, fontsize=SMALL, frameon=False)
    return save(figure, path)


def _draw_end(axes: "Axes", tenths: Tenths, columns: Sequence[int], best: bool, names: Sequence[str]) -> None:
    members = tenths.members(best)
    for tagger, name in enumerate(names):
        colour, marker = PALETTE[tagger % len(PALETTE)], MARKERS[tagger % len(MARKERS)]
        axes.scatter([], [], s=30, color=colour, marker=marker, label=legible(name))
        axes.scatter(
            [tenths.precision[tagger, column] for column in columns],
            range(len(columns)),
            s=30,
            marker=marker,
            edgecolor=colour,
            facecolor=[colour if members[tagger, column] else "white" for column in columns],
            lw=1.0,
            zorder=2,
        )
    axes.set_yticks(range(len(columns)), [legible(tenths.classes[column]) for column in columns])
    axes.set_ylim(max(len(columns), 3) - 0.4, -0.6)
    axes.set_xlabel("AP, %")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(color=EMPTY, lw=0.6)
    axes.set_axisbelow(True)
