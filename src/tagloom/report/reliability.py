"""How far a tagger's scores are from probabilities, as a table for people and as a drawing."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tagloom.report.drawing import FAINT, GAIN, INK, LOSS, SMALL, make_figure, plain_axes, save
from tagloom.wording import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 5  # labels that are furthest off
TITLES = {"before": "as the network gives them", "after": "calibrated"}
BINS = {"equal-width": "bins of equal width", "equal-mass": "bins with equally many pairs"}


def render_reliability(figures: dict[str, dict[str, Any]], classes: Sequence[str], console: Console) -> None:
    """Print the calibration errors before and after, and the labels whose scores are furthest off.

    Args:
        figures: "before" and perhaps "after", each as `tagloom.metrics.calibration_figures` gives it.
        classes: Label names.
        console: Where to print.
    """
    table = Table(
        title="Are scores probabilities?",
        caption="ECE: how far scores are from the share that is true, percent; by bins of equal width, of equal mass",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("scores are")
    for column in ("ECE width", "ECE mass", "mean of labels, width", "mean of labels, mass", "log loss"):
        table.add_column(column, justify="right")
    for part, found in figures.items():
        errors = [f"{found[kind][name]:.2f}" for name in ("ECE", "mean_label_ECE") for kind in BINS]
        table.add_row(TITLES[part], *errors, f"{found['log_loss']:.4f}")
    console.print(table)
    final = list(figures.values())[-1]["equal-mass"]["label_ECE"]
    worst = sorted((-error, place) for place, error in enumerate(final) if error is not None)[:SHOWN]
    listed = ", ".join(f"{printable(classes[place])} {-error:.1f}" for error, place in worst)
    console.print(Text(f"Furthest off, by bins of equal mass: {listed}"))


def draw_reliability(figures: dict[str, dict[str, Any]], path: str | os.PathLike[str]) -> Path:
    """Draw the share of positives over the mean score of each bin, before and after, in bins of both kinds.

    Args:
        figures: As `render_reliability` takes them.
        path: A .png, .svg or .pdf file.
    """
    figure = make_figure(9.0, 4.6)
    for axes, kind in zip(figure.subplots(1, 2), BINS, strict=True):
        _draw_curves(axes, figures, kind)
    return save(figure, path)


def _draw_curves(axes: "Axes", figures: dict[str, dict[str, Any]], kind: str) -> None:
    plain_axes(axes, BINS[kind].capitalize())
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=1, linestyle="--")
    # Shape says the same as colour: hollow before, full after.
    for (part, found), colour, fill in zip(figures.items(), (LOSS, GAIN), ("white", GAIN), strict=False):
        curve = found[kind]
        label = f"{TITLES[part]}: ECE {curve['ECE']:.2f} %"
        axes.plot(
            curve["score"],
            curve["frequency"],
            color=colour,
            marker="o",
            markerfacecolor=fill,
            linewidth=1.2,
            label=label,
        )
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal", xlabel="mean score", ylabel="share that is true")
    axes.legend(loc="upper left", frameon=False, fontsize=SMALL, labelcolor=INK)
