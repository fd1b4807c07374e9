"""A comparison of two taggers as tables for people, and as plain data."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tagloom.evaluation.compare import LEAST_POSITIVES, Change, Comparison, Interval
from tagloom.evaluation.label_pairs import Gap, count_pairs, improved_pairs
from tagloom.report.table import as_text, make_table
from tagloom.wording import listed, printable

SHOWN = 10  # labels at either end of the ranking
MOST_LISTED = 5  # labels listed by name where they are left out
CHANCE = 0.05  # the share of unchanged labels that a 95 % interval marks by chance


def render_comparison(
    comparison: Comparison,
    runs: tuple[str, str],
    console: Console,
    gaps: Sequence[Gap] = (),
    *,
    least: float = 0.0,
    pairs: int = 10,
    every: bool = False,
) -> None:
    """Print what changed from the first tagger to the second: overall, per label, and in pairs of labels.

    Args:
        comparison: The comparison.
        runs: Names of the two taggers.
        console: Where to print.
        gaps: Gaps between pairs of labels.
        least: A label has gained or lost if it changed by more than this many points.
        pairs: How many pairs that improved together to list.
        every: Show all labels.
    """
    render_overview(comparison, runs, console, least=least)
    cut = len(comparison.labels) > 2 * SHOWN and not every
    console.print(_labels(comparison, cut))
    for line in _notes(comparison, cut):
        console.print(line)
    for line in _pair_counts(comparison, least):
        console.print(line)
    if together := improved_pairs(comparison, pairs, least):
        console.print(_together(together))
    if gaps:
        console.print(_gaps(gaps))
    for line in left_out(comparison):
        console.print(line)


def render_overview(comparison: Comparison, runs: tuple[str, str], console: Console, *, least: float = 0.0) -> None:
    """Print how mAP changed, and how many labels gained and lost. Arguments as for `render_comparison`."""
    for line in _overview(comparison, runs, least):
        console.print(line)


def comparison_to_dict(
    comparison: Comparison, gaps: Sequence[Gap] = (), *, least: float = 0.0, pairs: int = 10
) -> dict[str, Any]:
    """Give everything about a comparison as plain data that JSON can hold; arguments as in `render_comparison`."""
    return {
        "images": comparison.images,
        "mAP": comparison.total.to_dict(),
        "labels": [change.to_dict() for change in comparison.labels],
        "least": least,
        "gained": [change.name for change in comparison.gained(least)],
        "lost": [change.name for change in comparison.lost(least)],
        "pairs": asdict(count_pairs(comparison, least)),
        "improved_together": [
            {"labels": [one.name, two.name], "gains": [one.difference, two.difference]}
            for one, two in improved_pairs(comparison, pairs, least)
        ],
        "gaps": [{**asdict(gap), "widths": gap.widths} for gap in gaps],
        "without_positive": comparison.without_positive,
        "only_first": comparison.only_first,
        "only_second": comparison.only_second,
        "broken": [str(error) for error in comparison.broken],
    }


def _overview(comparison: Comparison, runs: tuple[str, str], least: float) -> list[Text]:
    total = comparison.total
    width = max(map(len, map(printable, runs)))
    gained, lost = comparison.gained(least), comparison.lost(least)
    unchanged = len(comparison.labels) - len(gained) - len(lost)
    beyond = f" by more than {least:g} points" if least else ""
    return [
        Text.assemble((f"A  {printable(runs[0]):<{width}}  mAP {total.first:6.2f}", "bold")),
        Text.assemble((f"B  {printable(runs[1]):<{width}}  mAP {total.second:6.2f}", "bold"), "  ", verdict(total)),
        Text(f"on {comparison.images:,} images; {len(comparison.labels):,} labels have positives among them"),
        Text(f"gained{beyond}: {_counted(gained)}; lost: {_counted(lost)}; unchanged: {unchanged:,}"),
    ]


def verdict(total: Change) -> Text:
    """Say how far mAP moved, and whether it could be chance."""
    if total.interval is None:
        return Text(f"difference {total.difference:+.2f}")
    judged = "" if total.sure else ": could be chance"
    return Text(f"difference {total.difference:+.2f}, 95 % interval {_range(total.interval)}{judged}", style_of(total))


def _counted(changes: Sequence[Change]) -> str:
    return f"{len(changes):,} ({sum(change.sure for change in changes):,} of them certain)"


def _labels(comparison: Comparison, cut: bool) -> Table:
    changes = comparison.labels
    columns = ("label", ">positives", ">A", ">B", ">difference", ">95 % interval", "")
    table = make_table("Average precision of each label", *columns)
    for change in changes[:SHOWN] if cut else changes:
        table.add_row(*_cells(change))
    if cut:
        hidden = len(changes) - 2 * SHOWN
        table.add_row(Text(f"… {hidden:,} more", style="dim"), *[""] * (len(columns) - 1))
        for change in changes[-SHOWN:]:
            table.add_row(*_cells(change))
    return table


def _notes(comparison: Comparison, cut: bool) -> list[Text]:
    notes = []
    judged = sum(change.interval is not None for change in comparison.labels)
    if judged:
        marked = CHANCE * judged
        chance = f"; chance alone would mark about {marked:.0f} of {judged:,} labels" if marked >= 1 else ""
        notes.append(f"▲ ▼ the interval excludes 0{chance}")
        if judged < len(comparison.labels):
            notes.append(f"no interval with fewer than {LEAST_POSITIVES} positives")
    if cut:
        notes.append("all labels with --all or --json")
    return [Text(note, style="italic dim") for note in notes]


def _cells(change: Change) -> list[Text | str]:
    style = style_of(change)
    mark = ("▲" if change.difference > 0 else "▼") if change.sure else ""
    return [
        as_text(change.name, style),
        f"{change.positives:,}",
        f"{change.first:.2f}",
        f"{change.second:.2f}",
        Text(f"{change.difference:+.2f}", style),
        "–" if change.interval is None else _range(change.interval),
        Text(mark, style),
    ]


def _pair_counts(comparison: Comparison, least: float) -> list[Text]:
    counts = count_pairs(comparison, least)
    every = counts.improved + counts.worsened + counts.apart + counts.unmoved
    if not every:
        return []
    still = f", {counts.unmoved:,} have an unchanged label" if counts.unmoved else ""
    return [
        Text(
            f"Of {every:,} pairs of labels, {counts.improved:,} improved together, {counts.worsened:,} worsened "
            f"together, {counts.apart:,} moved apart{still}."
        )
    ]


def _together(together: Sequence[tuple[Change, Change]]) -> Table:
    table = make_table("Pairs that improved most together", "labels", ">gains")
    for one, two in together:
        table.add_row(as_text(f"{one.name}, {two.name}"), f"{one.difference:+.2f}  {two.difference:+.2f}")
    return table


def _gaps(gaps: Sequence[Gap]) -> Table:
    title = "Gaps between labels: how far apart their average precisions are"
    caption = "in brackets: the two average precisions"
    table = make_table(title, "labels", ">gap in A", ">gap in B", ">change", caption=caption)
    for gap in gaps:
        before, after = gap.widths
        table.add_row(
            as_text(", ".join(gap.labels)),
            f"{before:.2f} ({gap.first[0]:.2f}, {gap.first[1]:.2f})",
            f"{after:.2f} ({gap.second[0]:.2f}, {gap.second[1]:.2f})",
            f"{after - before:+.2f}",
        )
    return table


def left_out(comparison: Comparison) -> list[Text]:
    """Name the classes that could not be compared."""
    groups = [
        ("Without a positive image, so not measured", comparison.without_positive),
        ("Left out, because B does not know them", comparison.only_first),
        ("Left out, because A does not know them", comparison.only_second),
    ]
    return [
        Text(f"{title} ({len(names):,}): {listed(map(printable, names), MOST_LISTED)}")
        for title, names in groups
        if names
    ]


def _range(interval: Interval) -> str:
    return f"{interval.low:+.2f} to {interval.high:+.2f}"


def style_of(change: Change) -> str:
    """Colour only what is certain; the marks say the same without colour."""
    return "" if not change.sure else "green" if change.difference > 0 else "red"
