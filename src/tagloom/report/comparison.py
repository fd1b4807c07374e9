"""A comparison of two taggers as tables for people."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tagloom.evaluation.compare import (
    LEAST_POSITIVES,
    Change,
    Comparison,
    Gap,
    Interval,
    count_pairs,
    improved_pairs,
)
from tagloom.wording import printable

SHOWN = 10  # labels at either end of the ranking
NAMED = 5  # labels named before "and … more"
CHANCE = 0.05  # the share of unchanged labels that a 95 % interval marks all the same


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
    """Print what changed from the first tagger to the second: in all, label by label, and in pairs of labels.

    Args:
        comparison: What was found.
        runs: What the two taggers are called.
        console: Where to print.
        gaps: Pairs of labels whose gap was asked for.
        least: Points that a label must move by to have gained or lost.
        pairs: How many of the pairs that improved together are listed.
        every: Show all labels, however many there are.
    """
    for line in _headline(comparison, runs, least):
        console.print(line)
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
    for line in _left_out(comparison):
        console.print(line)


def _headline(comparison: Comparison, runs: tuple[str, str], least: float) -> list[Text]:
    total = comparison.total
    width = max(map(len, map(printable, runs)))
    gained, lost = comparison.gained(least), comparison.lost(least)
    stayed = len(comparison.labels) - len(gained) - len(lost)
    beyond = f" by more than {least:g} points" if least else ""
    return [
        Text.assemble((f"A  {printable(runs[0]):<{width}}  mAP {total.first:6.2f}", "bold")),
        Text.assemble((f"B  {printable(runs[1]):<{width}}  mAP {total.second:6.2f}", "bold"), "  ", _verdict(total)),
        Text(f"on {comparison.images:,} images; {len(comparison.labels):,} labels have positives among them"),
        Text(f"gained{beyond}: {_counted(gained)}; lost: {_counted(lost)}; stayed: {stayed:,}"),
    ]


def _verdict(total: Change) -> Text:
    if total.interval is None:
        return Text(f"difference {total.difference:+.2f}")
    judged = "" if total.sure else ": could be chance"
    return Text(f"difference {total.difference:+.2f}, 95 % interval {_range(total.interval)}{judged}", _style(total))


def _counted(changes: Sequence[Change]) -> str:
    return f"{len(changes):,} (of them surely {sum(change.sure for change in changes):,})"


def _labels(comparison: Comparison, cut: bool) -> Table:
    changes = comparison.labels
    table = Table(title="Average precision, label by label", title_justify="left")
    table.add_column("label", overflow="fold")
    for name in ("positives", "A", "B", "difference", "95 % interval"):
        table.add_column(name, justify="right")
    table.add_column("")
    for change in changes[:SHOWN] if cut else changes:
        table.add_row(*_cells(change))
    if cut:
        hidden = len(changes) - 2 * SHOWN
        table.add_row(Text(f"… {hidden:,} more", style="dim"), *[""] * 6)
        for change in changes[-SHOWN:]:
            table.add_row(*_cells(change))
    return table


def _notes(comparison: Comparison, cut: bool) -> list[Text]:
    notes = []
    judged = sum(change.interval is not None for change in comparison.labels)
    if judged:
        marked = CHANCE * judged
        chance = f"; chance alone would mark about {marked:.0f} of {judged:,} labels" if marked >= 1 else ""
        notes.append(f"▲ ▼ the interval leaves out 0{chance}")
        if judged < len(comparison.labels):
            notes.append(f"no interval with fewer than {LEAST_POSITIVES} positives")
    if cut:
        notes.append("all labels with --all or --json")
    return [Text(note, style="italic dim") for note in notes]


def _cells(change: Change) -> list[Text | str]:
    style = _style(change)
    mark = ("▲" if change.difference > 0 else "▼") if change.sure else ""
    return [
        Text(printable(change.name), style),
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
    still = f", {counts.unmoved:,} with a label that stayed" if counts.unmoved else ""
    return [
        Text(
            f"Of {every:,} pairs of labels {counts.improved:,} improved together, {counts.worsened:,} worsened "
            f"together, {counts.apart:,} went apart{still}."
        )
    ]


def _together(together: Sequence[tuple[Change, Change]]) -> Table:
    table = Table(title="Pairs that improved together most", title_justify="left")
    table.add_column("labels", overflow="fold")
    table.add_column("gains", justify="right")
    for one, two in together:
        names = f"{printable(one.name)}, {printable(two.name)}"
        table.add_row(Text(names), f"{one.difference:+.2f}  {two.difference:+.2f}")
    return table


def _gaps(gaps: Sequence[Gap]) -> Table:
    table = Table(
        title="Gaps between labels: how far their average precisions lie apart",
        title_justify="left",
        caption="in brackets the two average precisions",
        caption_justify="left",
    )
    table.add_column("labels", overflow="fold")
    for name in ("gap in A", "gap in B", "change"):
        table.add_column(name, justify="right")
    for gap in gaps:
        before, after = gap.widths
        table.add_row(
            Text(", ".join(map(printable, gap.labels))),
            f"{before:.2f} ({gap.first[0]:.2f}, {gap.first[1]:.2f})",
            f"{after:.2f} ({gap.second[0]:.2f}, {gap.second[1]:.2f})",
            f"{after - before:+.2f}",
        )
    return table


def _left_out(comparison: Comparison) -> list[Text]:
    lines = [
        ("Without a positive image, so not measured", comparison.without_positive),
        ("Left out, since B does not know them", comparison.only_first),
        ("Left out, since A does not know them", comparison.only_second),
    ]
    return [Text(f"{title} ({len(names):,}): {_few(names)}") for title, names in lines if names]


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(map(printable, names[:NAMED])) + more


def _range(interval: Interval) -> str:
    return f"{interval.low:+.2f} to {interval.high:+.2f}"


def _style(change: Change) -> str:
    """Colour only what is sure; the marks say the same without colour."""
    return "" if not change.sure else "green" if change.difference > 0 else "red"
