"""`tagloom compare`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagloom.cli.arguments import Data, DataOptions, Device, IgnoreOtherLabels, JsonPath, Plot, read_pairs, write_json
from tagloom.terminal import open_console, print_line, warn

if TYPE_CHECKING:
    from tagloom.evaluation.compare import Comparison
    from tagloom.evaluation.label_pairs import Gap


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN RUN",
            help="Taggers: folders, or hf-hub:owner/name. The first is the one to start from; name two or more.",
        ),
    ],
    data: Data,
    gap: Annotated[
        list[str] | None,
        typer.Option(help="Show how far apart two labels are that should score alike: cow,horse. Repeatable."),
    ] = None,
    least: Annotated[
        float, typer.Option(help="Points that a label must change by to count as gained or lost.", min=0)
    ] = 0.0,
    pairs: Annotated[int, typer.Option(help="Number of label pairs to list that improved together.", min=0)] = 10,
    every: Annotated[bool, typer.Option("--all", help="Print all labels, not only those that changed most.")] = False,
    json_path: JsonPath = None,
    plot: Plot = None,
    resamples: Annotated[
        int, typer.Option(help="Number of resamples for the 95 % intervals; 0 leaves them out.", min=0)
    ] = 1000,
    ignore_other_labels: IgnoreOtherLabels = False,
    device: Device = "auto",
    data_option: DataOptions = None,
) -> None:
    """Compare taggers on a labelled table: which labels gained, which lost, and whether at each other's cost.

    Example: tagloom compare runs/first runs/second photos/val.csv --plot compare.png

    Two taggers are compared label by label. Of three or more, each is compared with the first: mAP, labels and pairs of
    labels that gained and lost, and the two labels of every --gap in each tagger.
    """
    from tagloom.api.scoring import compare as compare_taggers
    from tagloom.api.scoring import open_different
    from tagloom.evaluation.compare import shared_classes
    from tagloom.evaluation.label_pairs import cross_label_gaps, read_pair
    from tagloom.report.drawing import check_drawable

    if plot:
        check_drawable(plot)  # before minutes of scoring, like all that can be wrong with --gap
    first, *others = open_different(runs, device)
    wanted = [
        read_pair(text, shared_classes(first.classes, *(other.classes for other in others))) for text in gap or []
    ]
    comparisons = compare_taggers(
        first,
        others,
        data,
        ignore_other_labels=ignore_other_labels,
        resamples=resamples,
        data_options=read_pairs(data_option),
    )
    gaps = [cross_label_gaps(comparison, wanted) for comparison in comparisons]
    options = {"least": least, "pairs": pairs}
    show = _show_two if len(comparisons) == 1 else _show_several
    show(runs, comparisons, gaps, plot, every, options)
    for error in comparisons[0].broken:
        warn(f"left out: {error}")
    measured = {found.labels for found in gaps[0]}
    for one, two in wanted:
        if (one, two) not in measured:
            warn(f"no gap between {one} and {two}: one of them has no positive image in {data}.")
    if json_path:
        write_json(json_path, {"data": data, **_plain(runs, comparisons, gaps, options)})


def _show_two(
    runs: Sequence[str],
    comparisons: "Sequence[Comparison]",
    gaps: "Sequence[list[Gap]]",
    plot: Path | None,
    every: bool,
    options: dict[str, Any],
) -> None:
    from tagloom.report.comparison import render_comparison
    from tagloom.report.comparison_chart import draw_comparison

    console = open_console()
    render_comparison(comparisons[0], (runs[0], runs[1]), console, gaps[0], every=every, **options)
    if plot:
        first, second = short_names(*runs)
        print_line(console, f"Drawn in {draw_comparison(comparisons[0], (first, second), plot, gaps[0])}")


def _show_several(
    runs: Sequence[str],
    comparisons: "Sequence[Comparison]",
    gaps: "Sequence[list[Gap]]",
    plot: Path | None,
    every: bool,
    options: dict[str, Any],
) -> None:
    from tagloom.report.methods import render_methods
    from tagloom.report.methods_chart import draw_methods

    console = open_console()
    render_methods(comparisons, runs, console, gaps, every=every, **options)
    if plot:
        drawn = draw_methods(comparisons, short_names(*runs), plot, gaps, least=options["least"])
        print_line(console, f"Drawn in {drawn}")


def _plain(
    runs: Sequence[str],
    comparisons: "Sequence[Comparison]",
    gaps: "Sequence[list[Gap]]",
    options: dict[str, Any],
) -> dict[str, Any]:
    """Give plain data: of two taggers one comparison, of several a list with one for each after the first."""
    from tagloom.report.comparison import comparison_to_dict

    found = [
        {"second": run, **comparison_to_dict(comparison, own, **options)}
        for run, comparison, own in zip(runs[1:], comparisons, gaps, strict=True)
    ]
    return {"first": runs[0], **(found[0] if len(found) == 1 else {"comparisons": found})}


def short_names(*runs: str) -> tuple[str, ...]:
    """Name runs in a drawing: by the last part of their paths, or by the whole paths if two of those are the same.

    >>> short_names("runs/probe", "runs/decoder/"), short_names("a/tagger", "b/tagger")
    (('probe', 'decoder'), ('a/tagger', 'b/tagger'))
    """
    names = tuple(Path(run).name for run in runs)
    return names if all(names) and len(set(names)) == len(names) else runs
