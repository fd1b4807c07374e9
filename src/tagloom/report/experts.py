"""Experts' load as a table in the terminal, and as a drawing."""

import os
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tagloom.errors import TagloomError
from tagloom.explain.experts import ExpertLoad
from tagloom.report.heatmap import draw_heatmap
from tagloom.wording import printable


def render_experts(load: ExpertLoad, console: Console) -> None:
    """Print, per layer and label, what the label takes of its own experts and which shared ones it takes most."""
    shared = sum(name.startswith("shared") for name in load.experts)
    for number, weights in enumerate(load.layers):
        table = Table(title=f"layer {number + 1}, mean of {load.pictures} pictures", title_justify="left")
        table.add_column("label")
        table.add_column("own, %", justify="right")
        table.add_column("most of the shared experts, %")
        table.add_column("experts in use", justify="right")
        used = load.effective_experts(number)
        for place, label in enumerate(load.classes):
            row = weights[place]
            order = np.argsort(-row[:shared], kind="stable")[:3]
            most = "  ".join(f"{expert + 1}: {100 * row[expert]:.1f}" for expert in order)
            table.add_row(Text(printable(label)), f"{100 * row[shared:].sum():.1f}", most, f"{used[place]:.1f}")
        average = weights.mean(axis=0)
        table.add_section()
        spread = (
            "" if not shared else f"least {100 * average[:shared].min():.1f}, most {100 * average[:shared].max():.1f}"
        )
        table.add_row("average", f"{100 * average[shared:].sum():.1f}", spread, f"{used.mean():.1f}")
        console.print(table)


def draw_experts(load: ExpertLoad, path: str | os.PathLike[str], *, layer: int = 1) -> Path:
    """Draw labels by experts, on a logarithmic scale, with the average over labels as the last row.

    Args:
        load: What to draw.
        path: A .png, .svg or .pdf file.
        layer: Which layer, from 1.
    """
    if not 1 <= layer <= len(load.layers):
        raise TagloomError(f"there is no layer {layer} of experts: the tagger has {len(load.layers)}, counted from 1.")
    weights = load.layers[layer - 1]
    return draw_heatmap(
        np.vstack([weights, weights.mean(axis=0)]),
        [*load.classes, "average"],
        load.experts,
        path,
        log=True,
        title=f"Experts' load, layer {layer}, mean of {load.pictures} pictures",
        scale="weight that the label's gate gives",
        last_row_apart=True,
        last_column_apart=load.experts[-1] == "own",
    )
