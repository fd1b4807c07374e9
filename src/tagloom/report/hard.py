"""Hard instances as tables in the terminal, and as a contact sheet."""

from pathlib import Path

from rich.console import Console

from tagloom.evaluation.hard import HardReport
from tagloom.report.contact_sheet import contact_sheet
from tagloom.report.table import as_text, make_table


def render_hard(report: HardReport, console: Console, most_classes: int | None = None) -> None:
    """Print the hardest images and classes.

    Args:
        report: What to print.
        console: Where to print.
        most_classes: The most classes to print; None for all.
    """
    mixes = report.alpha is not None
    columns = ("image", "true label", ">score", ">labels above it", *([">α"] if mixes else []))
    images = make_table("Images with the lowest score of a true label", *columns)
    for entry in report.instances:
        names = as_text(str(report.paths[entry.row])), as_text(entry.label)
        alpha = [] if report.alpha is None else [f"{report.alpha[entry.row]:.2g}"]
        images.add_row(*names, f"{entry.score:.4f}", str(entry.before), *alpha)
    console.print(images)
    columns = ("class", ">positives", ">mean score", ">missed, %", ">AP, %", *([">mean α"] if mixes else []))
    classes = make_table("Classes by the mean score of their positive images", *columns)
    for hard in report.classes[:most_classes]:
        figures = [f"{hard.score:.3f}", f"{100 * hard.missed:.1f}", f"{hard.average_precision:.2f}"]
        alpha = [f"{report.class_alpha(hard.label):.2g}"] if mixes else []
        classes.add_row(as_text(hard.label), f"{hard.positives:,}", *figures, *alpha)
    console.print(classes)
    if most_classes is not None and most_classes < len(report.classes):
        console.print(f"{most_classes} of {len(report.classes)} classes; all with --all or --json")


def draw_hard(report: HardReport, path: Path) -> Path:
    """Draw the hardest images with their tags and the labels they miss, as a PNG."""
    pictures = []
    for entry, said in zip(report.instances, report.tags, strict=True):
        truth = sorted(report.truth[entry.row], key=lambda name, hard=entry.label: name != hard)  # type: ignore[misc]
        pictures.append((report.paths[entry.row], said, truth))
    return contact_sheet(pictures, path, columns=5)
