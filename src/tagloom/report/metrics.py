"""The result of `tagloom.metrics.score` as tables for people."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tagloom.metrics.long_tail import PARTS, is_worth_showing
from tagloom.metrics.precision_recall import PRECISION_RECALL_NAMES
from tagloom.report.table import make_table
from tagloom.wording import listed, printable

SHOWN = 10  # classes at either end of the ranking
MOST_LISTED = 20  # classes without a positive that are listed by name


def render_metrics(
    result: dict[str, Any], classes: Sequence[str], console: Console, counts: Sequence[int] | None = None
) -> None:
    """Print the main metrics, the best and worst classes, and the classes that could not be measured.

    Args:
        result: What `score` returned.
        classes: The N class names, in the order of the scores.
        console: Where to print.
        counts: `(N,)` positives per class, shown next to the AP of each class if given.
    """
    names = [printable(name) for name in classes]
    measured = [(ap, index) for index, ap in enumerate(result["AP"]) if ap is not None]
    measured.sort(key=lambda pair: (-pair[0], pair[1]))
    if "top1" in result:  # one label per image: the best class is the answer, whatever its score
        console.print(Text(f"top-1 {result['top1']:.2f}", style="bold"), Text(f"of {result['images']:,} images"))
    console.print(Text(f"mAP {result['mAP']:.2f}", style="bold"), Text(_extent(result, len(measured))))
    if "top1" not in result:
        console.print(_precision_and_recall(result))
    if "levels" in result:
        console.print(_levels(result["levels"]))
    if is_worth_showing(result.get("long_tail", [])):
        console.print(_long_tail(result["long_tail"]))
    if len(measured) <= 2 * SHOWN:
        console.print(_class_table("Classes by average precision", measured, names, counts))
    else:
        console.print(_class_table(f"The {SHOWN} best classes", measured[:SHOWN], names, counts))
        console.print(_class_table(f"The {SHOWN} worst classes", measured[-SHOWN:], names, counts))
    absent = result["classes_without_positive"]
    if absent:
        missing = listed([names[index] for index in absent], MOST_LISTED)
        console.print(Text(f"Without a positive image, so not measured ({len(absent):,}): {missing}"))


def _levels(levels: Sequence[dict[str, Any]]) -> Table:
    table = make_table("Levels of the label tree", ">level", ">classes", ">mAP", caption="level 1: no class above")
    for level in levels:
        table.add_row(str(level["level"]), f"{level['classes']:,}", f"{level['mAP']:.2f}")
    return table


def _long_tail(parts: Sequence[dict[str, Any]]) -> Table:
    """A row for each part of the classes, by the number of images that they were learned from."""
    table = make_table("Long tail", "part", "learned from", ">classes", ">measured", ">mAP")
    for part in parts:
        mean = "–" if part["mAP"] is None else f"{part['mAP']:.2f}"
        table.add_row(part["part"], PARTS[part["part"]], f"{part['classes']:,}", f"{part['measured']:,}", mean)
    return table


def _extent(result: dict[str, Any], measured: int) -> str:
    return f"over {measured:,} of {len(result['AP']):,} classes, {result['images']:,} images"


def _precision_and_recall(result: dict[str, Any]) -> Table:
    """A row for the threshold alone and one for each top k in the result; a column for each metric."""
    columns = (f">{name}" for name in PRECISION_RECALL_NAMES)
    caption = "percent; C: mean over classes, O: over all tags"
    table = make_table("Precision, recall and F1", "tags", *columns, caption=caption)
    for suffix in (name.removeprefix("CF1") for name in result if name.startswith("CF1")):
        top = suffix.removeprefix("_").replace("top", "top ")
        values = [f"{result[name + suffix]:.2f}" for name in PRECISION_RECALL_NAMES]
        table.add_row(f"also in the {top}" if suffix else "above the threshold", *values)
    return table


def _class_table(
    title: str, ranked: Sequence[tuple[float, int]], names: Sequence[str], counts: Sequence[int] | None
) -> Table:
    table = make_table(title, "class", *([] if counts is None else [">positives"]), ">AP", "")
    for ap, index in ranked:
        count = [] if counts is None else [f"{counts[index]:,}"]
        table.add_row(Text(names[index]), *count, f"{ap:.2f}", ProgressBar(total=100, completed=ap, width=20))
    return table
