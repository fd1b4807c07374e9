"""Parts of a label graph as a table in the terminal, as plain data, and as a drawing."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tagloom.labels.graph import nearness
from tagloom.report.heatmap import draw_heatmap
from tagloom.wording import printable


@dataclass(frozen=True)
class PartitionReport:
    """Parts of the labels, with how near their labels are.

    Attributes:
        kind: The graph that was parted, "co" or "dis".
        classes: All label names.
        parts: Class numbers of each part.
        near: (N, N), the affinity of that graph.
    """

    kind: str
    classes: tuple[str, ...]
    parts: Sequence[Sequence[int]]
    near: NDArray[np.float32]

    def to_dict(self) -> dict[str, Any]:
        """Give plain data: names, sizes, and the mean affinity inside and between parts; null where there is none."""
        between = nearness(self.near, self.parts)
        return {
            "kind": self.kind,
            "parts": [[self.classes[label] for label in part] for part in self.parts],
            "sizes": [len(part) for part in self.parts],
            "affinity": [[None if np.isnan(cell) else round(float(cell), 6) for cell in row] for row in between],
        }


def render_partition(report: PartitionReport, console: Console) -> None:
    """Print a row per part: its size, the mean affinity inside it and to the labels outside, and its labels."""
    between = nearness(report.near, report.parts)
    sizes = np.array([len(part) for part in report.parts], np.float64)
    table = Table(title=f"{len(report.parts)} parts of the {report.kind} graph", title_justify="left")
    table.add_column("part", justify="right")
    table.add_column("size", justify="right")
    table.add_column("inside", justify="right")
    table.add_column("outside", justify="right")
    table.add_column("labels")
    for number, part in enumerate(report.parts):
        others = np.arange(len(report.parts)) != number
        outside = np.average(between[number, others], weights=sizes[others]) if others.any() else np.nan
        names = ", ".join(printable(report.classes[label]) for label in part)
        table.add_row(str(number + 1), str(len(part)), _cell(between[number, number]), _cell(outside), Text(names))
    console.print(table)
    console.print("[dim]inside, outside: mean affinity of two labels of the part, and of one in it and one not.[/]")


def draw_partition(report: PartitionReport, path: str | os.PathLike[str]) -> Path:
    """Draw the affinity of all labels in the order of their parts, the first part on top."""
    order = [label for part in report.parts for label in part]
    names = [
        f"{number}  {report.classes[label]}" for number, part in enumerate(report.parts, start=1) for label in part
    ]
    shown = report.near[np.ix_(order, order)].astype(np.float64)
    np.fill_diagonal(shown, np.nan)  # a label's company with itself says nothing, and would outshine all else
    return draw_heatmap(
        shown,
        names,
        names,
        path,
        title=f"{report.kind} graph, labels in the order of {len(report.parts)} parts",
        scale="affinity",
    )


def _cell(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"
