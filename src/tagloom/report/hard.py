"""Hard instances in the terminal, and as a page of pictures."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tagloom.evaluation.hard import HardReport
from tagloom.report.contact_sheet import contact_sheet
from tagloom.wording import printable


def render_hard(report: HardReport, console: Console, most_classes: int | None = None) -> None:
    """Print the hardest images and classes.

    Args:
        report: What to print.
        console: Where.
        most_classes: Print at most so many classes; None for all.
    """
    mixes = report.alpha is not None
    images = Table("image", "true label", title="Images with the lowest score of a true label", title_justify="left")
    for column in ("score", "labels before it", *(["α"] if mixes else [])):
        images.add_column(column, justify="right")
    for entry in report.instances:
        cells: list[Text | str] = [
            Text(printable(str(report.paths[entry.row]))),
            Text(printable(entry.label)),
            f"{entry.score:.4f}",
            str(entry.before),
        ]
        images.add_row(*cells, *([] if report.alpha is None else [f"{report.alpha[entry.row]:.2g}"]))
    console.print(images)
    classes = Table("class", title="Classes by the mean score of their true images", title_justify="left")
    for column in ("positives", "mean score", "missed, %", "AP, %", *(["mean α"] if mixes else [])):
        classes.add_column(column, justify="right")
    for hard in report.classes[:most_classes]:
        figures = [f"{hard.score:.3f}", f"{100 * hard.missed:.1f}", f"{hard.average_precision:.2f}"]
        alpha = [f"{report.class_alpha(hard.label):.2g}"] if mixes else []
        classes.add_row(Text(printable(hard.label)), f"{hard.positives:,}", *figures, *alpha)
    console.print(classes)
    if most_classes is not None and most_classes < len(report.classes):
        console.print(f"{most_classes} of {len(report.classes)} classes; all with --all or --json")


def draw_hard(report: HardReport, path: Path) -> Path:
    """Draw the hardest images, each with what the tagger says and what it misses, as a PNG."""
    pictures = []
    for entry, said in zip(report.instances, report.tags, strict=True):
        truth = sorted(report.truth[entry.row], key=lambda name, hard=entry.label: name != hard)  # type: ignore[misc]
        pictures.append((report.paths[entry.row], said, truth))
    return contact_sheet(pictures, path, columns=5)
