"""Several taggers, each compared with the first, as tables for people."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tagloom.evaluation.compare import Comparison
from tagloom.evaluation.label_pairs import Gap, count_pairs, improved_pairs
from tagloom.report.comparison import left_out, style_of, verdict
from tagloom.report.table import as_text, make_table
from tagloom.wording import printable

SHOWN = 10  # labels at either end of the ranking


def render_methods(
    comparisons: Sequence[Comparison],
    runs: Sequence[str],
    console: Console,
    gaps: Sequence[Sequence[Gap]],
    *,
    least: float = 0.0,
    pairs: int = 10,
    every: bool = False,
) -> None:
    """Print how each tagger does against the first: overall, in pairs of labels, label by label, and in gaps.

    Args:
        comparisons: One for each tagger after the first.
        runs: Names of all taggers.
        console: Where to print.
        gaps: For each comparison the gaps between pairs of labels, the same pairs in all.
        least: A label has gained or lost if it changed by more than this many points.
        pairs: How many pairs that improved together to list for each tagger.
        every: Show all labels.
    """
    names = letters(len(runs))
    for line in _overview(comparisons, runs, names):
        console.print(line, soft_wrap=True)
    console.print(_counts(comparisons, names, least))
    for name, comparison in zip(names[1:], comparisons, strict=True):
        if found := improved_pairs(comparison, pairs, least):
            listed = "; ".join(f"{printable(one.name)}, {printable(two.name)}" for one, two in found)
            console.print(Text(f"In {name} improved most together: {listed}"))
    console.print(_labels(comparisons, names, every))
    if gaps[0]:
        console.print(_gaps(gaps, names))
    for line in left_out(comparisons[0]):
        console.print(line)


def letters(count: int) -> list[str]:
    """Name taggers A, B, C and so on.

    >>> letters(3), letters(28)[-2:]
    (['A', 'B', 'C'], ['A2', 'B2'])
    """
    rounds = ((number // 26, number % 26) for number in range(count))
    return [chr(ord("A") + place) + (str(turn + 1) if turn else "") for turn, place in rounds]


def _overview(comparisons: Sequence[Comparison], runs: Sequence[str], names: Sequence[str]) -> list[Text]:
    first, width = comparisons[0], max(map(len, map(printable, runs)))
    lines = [Text(f"{names[0]}  {printable(runs[0]):<{width}}  mAP {first.total.first:6.2f}", "bold")]
    for name, run, comparison in zip(names[1:], runs[1:], comparisons, strict=True):
        mean = Text(f"{name}  {printable(run):<{width}}  mAP {comparison.total.second:6.2f}", "bold")
        lines.append(Text.assemble(mean, "  ", verdict(comparison.total)))
    lines.append(Text(f"on {first.images:,} images; {len(first.labels):,} labels have positives among them"))
    return lines


def _counts(comparisons: Sequence[Comparison], names: Sequence[str], least: float) -> Table:
    beyond = f" by more than {least:g} points" if least else ""
    table = make_table(
        f"Labels and pairs of labels, against {names[0]}",
        *("", ">gained", ">lost", ">pairs improved", ">worsened", ">apart"),
        caption=f"a pair improved if both labels gained{beyond}; apart: one gained, the other lost",
    )
    for name, comparison in zip(names[1:], comparisons, strict=True):
        counts = count_pairs(comparison, least)
        labels = len(comparison.gained(least)), len(comparison.lost(least))
        table.add_row(name, *(f"{count:,}" for count in (*labels, counts.improved, counts.worsened, counts.apart)))
    return table


def _labels(comparisons: Sequence[Comparison], names: Sequence[str], every: bool) -> Table:
    """Show the AP of each label in all taggers, the one that gained most in their mean on top."""
    columns = [{change.name: change for change in comparison.labels} for comparison in comparisons]
    labels = sorted(columns[0], key=lambda name: -sum(column[name].difference for column in columns))
    cut = len(labels) > 2 * SHOWN and not every
    caption = "coloured where the 95 % interval of the difference from A excludes 0"
    caption += "; all labels with --all or --json" if cut else ""
    table = make_table(
        "Average precision of each label", "label", ">positives", *(f">{name}" for name in names), caption=caption
    )
    for number, label in enumerate(labels):
        if cut and SHOWN <= number < len(labels) - SHOWN:
            if number == SHOWN:
                table.add_row(Text(f"… {len(labels) - 2 * SHOWN:,} more", style="dim"), *[""] * (len(names) + 1))
            continue
        changes = [column[label] for column in columns]
        cells = [Text(f"{change.second:.2f}", style_of(change)) for change in changes]
        table.add_row(as_text(label), f"{changes[0].positives:,}", f"{changes[0].first:.2f}", *cells)
    return table


def _gaps(gaps: Sequence[Sequence[Gap]], names: Sequence[str]) -> Table:
    title = "Gaps between labels: how far apart their average precisions are"
    caption = "in brackets: the two average precisions"
    table = make_table(title, "labels", *(f">{name}" for name in names), caption=caption)
    for own in zip(*gaps, strict=True):
        points = [own[0].first, *(gap.second for gap in own)]
        cells = [f"{abs(one - two):.2f} ({one:.2f}, {two:.2f})" for one, two in points]
        table.add_row(as_text(", ".join(own[0].labels)), *cells)
    return table
