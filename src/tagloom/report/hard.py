"""Hard instances as tables in the terminal, and as a contact sheet."""

from pathlib import Path

from rich.console import Console
from rich.text import Text

from tagloom.evaluation.hard import HardReport
from tagloom.evaluation.one_class import ClassRanking
from tagloom.report.contact_sheet import contact_sheet, side_by_side
from tagloom.report.table import as_text, make_table
from tagloom.wording import printable


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
    by = "mean α" if report.by_alpha else "mean score"
    classes = make_table(f"Classes by the {by} of their positive images", *columns)
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


def render_class(ranking: ClassRanking, console: Console) -> None:
    """Print the images of a class that score highest and lowest."""
    console.print(
        Text(f"{printable(ranking.label)}: {ranking.positives:,} images, a tag above {ranking.threshold:.2f}"),
        soft_wrap=True,
    )
    for title, images in (("Highest scores", ranking.highest), ("Lowest scores", ranking.lowest)):
        table = make_table(title, "image", ">score", "other true labels")
        for image in images:
            others = ", ".join(name for name in image.truth if name != ranking.label)
            table.add_row(as_text(str(image.path)), f"{image.score:.4f}", as_text(others))
        console.print(table)


def draw_class(ranking: ClassRanking, path: Path) -> Path:
    """Draw the images of a class that score highest next to those that score lowest, as a PNG (layover, Figure 4)."""
    parts = [
        (title, [(image.path, image.tags, image.truth) for image in images])
        for title, images in (
            (f"{ranking.label}: highest scores", ranking.highest),
            (f"{ranking.label}: lowest scores", ranking.lowest),
        )
    ]
    return side_by_side(parts, path)
