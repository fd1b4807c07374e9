"""A promise and what became of it, as a page in the terminal."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console

from tagloom.evaluation.promise import Kept
from tagloom.report.table import as_text, make_table
from tagloom.scoring.promise import HeldOutCounts, fewest_cases, promised_thresholds, wanted_share
from tagloom.scoring.thresholds import NEVER
from tagloom.wording import listed, shown

_LONGEST = 10  # labels
_OFFERS = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5)


def describe_left_out(
    left_out: Sequence[str], counts: HeldOutCounts, *, precision: float | None, recall: float | None
) -> str:
    """Say which labels nothing can be promised of, why, and what can be promised instead."""
    what, wanted = "precision" if recall is None else "recall", wanted_share(precision, recall)
    labels = len(counts.classes)
    needed, cases = fewest_cases(wanted), "tags of a label" if recall is None else "images with a label"
    offers = [
        f"{share:g} for {number}"
        for share in _OFFERS
        if share < wanted and (number := _promised(counts, what, share)) > labels - len(left_out)
    ]
    less = f" A lower {what} can be promised of more labels: {', '.join(offers)}." if offers else ""
    return (
        f"{what} {wanted:g} can be promised of {labels - len(left_out)} of {labels} labels, from {counts.images:,} "
        f"held-out images. Left out: {listed(map(shown, left_out), most=20)}. The least that proves {wanted:g} is "
        f"{needed} {cases}, all {'right' if recall is None else 'found'}.{less} More labelled images help too: name "
        "them with --promise-on TABLE, or train with more held out (--set data.holdout=0.3)"
    )


def _promised(counts: HeldOutCounts, what: str, share: float) -> int:
    """Count the labels of which a share can be promised."""
    return int((promised_thresholds(counts, **{what: share}) < NEVER).sum())


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
