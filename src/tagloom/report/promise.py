"""A promise and what became of it, as a page in the terminal."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console

from tagloom.evaluation.promise import Kept
from tagloom.report.table import as_text, make_table

_LONGEST = 10  # labels


def render_promise(
    kept: Kept, classes: Sequence[str], console: Console, *, precision: float | None, recall: float | None
) -> None:
    """Print how many labels keep a promise, and which are the furthest from it."""
    what, wanted = ("precision", precision) if recall is None else ("recall", recall)
    console.print(
        f"{what} {wanted:g} is promised of {kept.promised} of {len(classes)} labels. Of {kept.measured} that can be "
        f"measured here, {kept.kept} have it.",
        soft_wrap=True,
    )
    order = np.argsort(kept.values)[: min(_LONGEST, kept.measured)]
    if len(order):
        page = make_table("Promised labels, the lowest first", f">{what}", "label")
        for column in order.tolist():
            page.add_row(f"{kept.values[column]:.1%}", as_text(classes[column]))
        console.print(page)
