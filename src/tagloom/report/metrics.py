"""The result of `tagloom.metrics.score` as tables for people."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tagloom.wording import printable

SHOWN = 10  # classes at either end of the ranking
NAMED = 20  # classes without a positive that are named before "and … more"


def render_metrics(
    result: dict[str, Any], classes: Sequence[str], console: Console, counts: Sequence[int] | None = None
) -> None:
    """Print the headline measures, the best and worst classes, and the classes that could not be measured.

    Args:
        result: What `score` returned.
        classes: The N class names, in the order of the scores.
        console: Where to print.
        counts: `(N,)` positives per class, shown beside each class's AP if given.
    """
    names = [printable(name) for name in classes]
    measured = [(ap, index) for index, ap in enumerate(result["AP"]) if ap is not None]
    measured.sort(key=lambda pair: (-pair[0], pair[1]))
    if "top1" in result:  # one label per picture: the best class is the answer, whatever its score
        console.print(Text(f"top-1 {result['top1']:.2f}", style="bold"), Text(f"of {result['images']:,} images"))
    console.print(Text(f"mAP {result['mAP']:.2f}", style="bold"), Text(_extent(result, len(measured))))
    if "top1" not in result:
        console.print(_headline(result))
    if len(measured) <= 2 * SHOWN:
        console.print(_class_table("Classes by average precision", measured, names, counts))
    else:
        console.print(_class_table(f"The {SHOWN} best classes", measured[:SHOWN], names, counts))
        console.print(_class_table(f"The {SHOWN} worst classes", measured[-SHOWN:], names, counts))
    absent = result["classes_without_positive"]
    if absent:
        listed = ", ".join(names[index] for index in absent[:NAMED])
        more = f" and {len(absent) - NAMED:,} more" if len(absent) > NAMED else ""
        console.print(Text(f"Without a positive image, so not measured ({len(absent):,}): {listed}{more}"))


def _extent(result: dict[str, Any], measured: int) -> str:
    return f"over {measured:,} of {len(result['AP']):,} classes, {result['images']:,} images"


def _headline(result: dict[str, Any]) -> Table:
    """A row for the threshold alone and one for each top k in the result; a column for each measure."""
    measures = ("CP", "CR", "CF1", "OP", "OR", "OF1")
    table = Table(
        title="Precision, recall and F1",
        caption="percent; C: mean over classes, O: over all tags",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("tags are")
    for measure in measures:
        table.add_column(measure, justify="right")
    for suffix in (name.removeprefix("CF1") for name in result if name.startswith("CF1")):
        condition = f"also in the {suffix.removeprefix('_').replace('top', 'top ')}" if suffix else "over the threshold"
        table.add_row(condition, *(f"{result[measure + suffix]:.2f}" for measure in measures))
    return table


def _class_table(
    title: str, ranked: Sequence[tuple[float, int]], names: Sequence[str], counts: Sequence[int] | None
) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("class", overflow="fold")
    if counts is not None:
        table.add_column("positives", justify="right")
    table.add_column("AP", justify="right")
    table.add_column("")
    for ap, index in ranked:
        count = [] if counts is None else [f"{counts[index]:,}"]
        table.add_row(Text(names[index]), *count, f"{ap:.2f}", ProgressBar(total=100, completed=ap, width=20))
    return table
