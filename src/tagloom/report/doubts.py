"""Doubts about labels as tables in the terminal, and as a contact sheet."""

from pathlib import Path

from rich.console import Console

from tagloom.evaluation.doubts import DoubtReport
from tagloom.report.contact_sheet import side_by_side
from tagloom.report.table import as_text, make_table
from tagloom.wording import and_more

_LONGEST = 10


def render_doubts(report: DoubtReport, console: Console) -> None:
    """Print the worst doubts, and the classes with most labels that look wrong or missing."""
    page = make_table("Labels to look at first", "image", "label", "table says", ">score", ">doubt")
    for doubt in report.doubts[:_LONGEST]:
        names = as_text(report.table.images[doubt.row]), as_text(doubt.label)
        page.add_row(*names, doubt.said, f"{doubt.score:.3f}", f"{doubt.chance:.1%}")
    console.print(page)
    ordered = sorted(report.classes, key=lambda found: -(found.wrong + found.missing))
    page = make_table("Classes with most labels in doubt", "class", ">positives", ">look wrong", ">look missing")
    for found in ordered[:_LONGEST]:
        page.add_row(as_text(found.label), f"{found.positives:,}", f"{found.wrong:,}", f"{found.missing:,}")
    console.print(page)
    if len(ordered) > _LONGEST:
        console.print(f"…{and_more(ordered, _LONGEST)} (all of them with --json)")


def draw_doubts(report: DoubtReport, path: Path, count: int) -> Path:
    """Draw the images of the first doubts as a PNG: labels that look wrong, next to those that look missing."""
    wrong = [doubt for doubt in report.doubts if doubt.said == "yes"][:count]
    missing = [doubt for doubt in report.doubts if doubt.said != "yes"][:count]
    return side_by_side(
        [
            (title, [(report.table.image(doubt.row), [(doubt.label, doubt.score)], None) for doubt in doubts])
            for title, doubts in (("Wrong?", wrong), ("Missing?", missing))
        ],
        path,
        columns=4,
        cell=176,
    )
