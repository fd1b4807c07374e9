"""A partition of a label graph as a table in the terminal, as plain data, and as a drawing."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from tagloom.labels.graph import nearness
from tagloom.report.heatmap import draw_heatmap
from tagloom.report.table import as_text, make_table


@dataclass(frozen=True)
class PartitionReport:
    """The parts of the classes, with the affinity of their labels.

    Attributes:
        kind: The graph that was split: "co" for co-occurrence, "dis" for dis-occurrence.
        classes: All label names.
        parts: The classes of each part, by column.
        near: (N, N), the affinity in that graph.
    """

    kind: str
    classes: tuple[str, ...]
    parts: Sequence[Sequence[int]]
    near: NDArray[np.float32]

    def to_dict(self) -> dict[str, Any]:
        """Give plain data: names, sizes, and mean affinities within and between parts, None where there is no pair."""
        between = nearness(self.near, self.parts)
        return {
            "kind": self.kind,
            "parts": [[self.classes[column] for column in part] for part in self.parts],
            "sizes": [len(part) for part in self.parts],
            "affinity": [[None if np.isnan(cell) else round(float(cell), 6) for cell in row] for row in between],
        }


def render_partition(report: PartitionReport, console: Console) -> None:
    """Print a row per part: its size, the mean affinity inside it and with labels outside, and its labels."""
    between = nearness(report.near, report.parts)
    sizes = np.array([len(part) for part in report.parts], np.float64)
    title = f"{len(report.parts)} parts of the {report.kind} graph"
    caption = "inside, outside: mean affinity of two labels in the part, and of one in the part and one outside it"
    table = make_table(title, ">part", ">size", ">inside", ">outside", "labels", caption=caption)
    for number, part in enumerate(report.parts):
        others = np.arange(len(report.parts)) != number
        outside = np.average(between[number, others], weights=sizes[others]) if others.any() else np.nan
        names = as_text(", ".join(report.classes[column] for column in part))
        table.add_row(str(number + 1), str(len(part)), _cell(between[number, number]), _cell(outside), names)
    console.print(table)


def draw_partition(report: PartitionReport, path: str | os.PathLike[str]) -> Path:
    """Draw the affinity of all labels, ordered by part, the first part on top."""
    order = [column for part in report.parts for column in part]
    names = [
        f"{number}  {report.classes[column]}" for number, part in enumerate(report.parts, start=1) for column in part
    ]
    shown = report.near[np.ix_(order, order)].astype(np.float64)
    np.fill_diagonal(shown, np.nan)  # a label's affinity with itself says nothing, and would outshine all others
    return draw_heatmap(
        shown,
        names,
        names,
        path,
        title=f"{report.kind} graph, labels ordered by {len(report.parts)} parts",
        scale="affinity",
    )


def _cell(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"
