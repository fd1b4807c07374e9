"""The load of experts as tables in the terminal, and as a drawing."""

import os
from pathlib import Path

import numpy as np
from rich.console import Console

from tagloom.errors import TagloomError
from tagloom.explain.experts import ExpertLoad
from tagloom.report.heatmap import draw_heatmap
from tagloom.report.table import as_text, make_table


def render_experts(load: ExpertLoad, console: Console) -> None:
    """Print, for each layer and label, the weight of its own experts and the shared experts with most weight."""
    shared = sum(name.startswith("shared") for name in load.experts)
    for number, weights in enumerate(load.layers):
        table = make_table(
            f"layer {number + 1}, mean of {load.pictures} images",
            *("label", ">own, %", "shared experts with most weight, %", ">experts in use"),
        )
        used = load.effective_experts(number)
        for label, row, count in zip(load.classes, weights, used, strict=True):
            order = np.argsort(-row[:shared], kind="stable")[:3]
            most = "  ".join(f"{expert + 1}: {100 * row[expert]:.1f}" for expert in order)
            table.add_row(as_text(label), f"{100 * row[shared:].sum():.1f}", most, f"{count:.1f}")
        average = weights.mean(axis=0)
        table.add_section()
        spread = (
            "" if not shared else f"least {100 * average[:shared].min():.1f}, most {100 * average[:shared].max():.1f}"
        )
        table.add_row("average", f"{100 * average[shared:].sum():.1f}", spread, f"{used.mean():.1f}")
        console.print(table)


def draw_experts(load: ExpertLoad, path: str | os.PathLike[str], *, layer: int = 1) -> Path:
    """Draw labels x experts on a logarithmic scale, with the average over labels as the last row.

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
        title=f"Load of experts, layer {layer}, mean of {load.pictures} images",
        scale="weight of the label's gate",
        last_row_apart=True,
        last_column_apart=load.experts[-1] == "own",
    )
