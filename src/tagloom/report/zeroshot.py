"""The result of `tagloom.metrics.zero_shot_score` as tables for people."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from tagloom.metrics.zeroshot import ZERO_SHOT_NAMES
from tagloom.report.table import make_table
from tagloom.wording import listed, printable

MOST_LISTED = 20  # labels without a positive that are listed by name
_ROWS = {"ZSL": "unseen labels only (ZSL)", "GZSL": "all labels (GZSL)", "seen": "seen labels only"}


def render_zero_shot(result: dict[str, dict[str, Any]], labels: Sequence[str], console: Console) -> None:
    """Print mAP and F1 of unseen, all and seen labels, the AP of each unseen label, and what could not be measured.

    Args:
        result: What `zero_shot_score` returned.
        labels: Names of all labels, in the order of the scores.
        console: Where to print.
    """
    names = [printable(label) for label in labels]
    columns = (f">{name}" for name in ZERO_SHOT_NAMES)
    caption = "percent; F1@K: every image gets exactly its K best labels of these"
    table = make_table("Zero-shot", "labels scored", ">count", *columns, caption=caption)
    for part, title in _ROWS.items():
        figures = result[part]
        cells = [f"{figures[name]:.2f}" for name in ZERO_SHOT_NAMES]
        table.add_row(title, f"{len(figures['columns']):,}", *cells)
    console.print(table)
    unseen = result["ZSL"]
    by_label = make_table("Unseen labels by average precision", "unseen label", ">AP")
    measured = [(ap, column) for ap, column in zip(unseen["AP"], unseen["columns"], strict=True) if ap is not None]
    for ap, column in sorted(measured, reverse=True):
        by_label.add_row(Text(names[column]), f"{ap:.2f}")
    console.print(by_label)
    absent = result["GZSL"]["columns_without_positive"]
    if absent:
        missing = listed([names[column] for column in absent], MOST_LISTED)
        console.print(Text(f"Without a positive image, so not in mAP ({len(absent):,}): {missing}"))
