"""How far a tagger's scores are from probabilities, as a table and as a drawing."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from tagloom.report.drawing import FAINT, GAIN, INK, LOSS, SMALL, make_figure, plain_axes, save
from tagloom.report.table import make_table
from tagloom.wording import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 5  # labels with the largest error
TITLES = {"before": "not calibrated", "after": "calibrated"}
BINS = {"equal-width": "bins of equal width", "equal-mass": "bins of equal mass"}


def render_reliability(figures: dict[str, dict[str, Any]], classes: Sequence[str], console: Console) -> None:
    """Print the calibration errors before and after calibration, and the labels with the largest error.

    Args:
        figures: `tagloom.metrics.calibration_figures` as "before" and, for a calibrated tagger, "after".
        classes: Label names.
        console: Where to print.
    """
    table = make_table(
        "Are scores probabilities?",
        *("scores", ">ECE width", ">ECE mass", ">mean of labels, width", ">mean of labels, mass", ">log loss"),
        caption="ECE: how far scores are from the share that is true, percent; bins of equal width, of equal mass",
    )
    for part, found in figures.items():
        errors = [f"{found[kind][name]:.2f}" for name in ("ECE", "mean_label_ECE") for kind in BINS]
        table.add_row(TITLES[part], *errors, f"{found['log_loss']:.4f}")
    console.print(table)
    final = list(figures.values())[-1]["equal-mass"]["label_ECE"]
    worst = sorted((-error, column) for column, error in enumerate(final) if error is not None)[:SHOWN]
    names = ", ".join(f"{printable(classes[column])} {-error:.1f}" for error, column in worst)
    console.print(Text(f"Largest ECE in bins of equal mass: {names}"))


def draw_reliability(figures: dict[str, dict[str, Any]], path: str | os.PathLike[str]) -> Path:
    """Draw the share of positives against the mean score of each bin, before and after, for both kinds of bins.

    Args:
        figures: As in `render_reliability`.
        path: A .png, .svg or .pdf file.
    """
    figure = make_figure(9.0, 4.6)
    for axes, kind in zip(figure.subplots(1, 2), BINS, strict=True):
        _draw_curves(axes, figures, kind)
    return save(figure, path)


def _draw_curves(axes: "Axes", figures: dict[str, dict[str, Any]], kind: str) -> None:
    plain_axes(axes, BINS[kind].capitalize())
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=1, linestyle="--")
    # Shape says the same as colour: hollow before, filled after.
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
