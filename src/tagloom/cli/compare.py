"""`tagloom compare`."""

from pathlib import Path
from typing import Annotated

import typer

from tagloom.cli.arguments import Data, DataOptions, Device, IgnoreOtherLabels, JsonPath, Plot, read_pairs, write_json
from tagloom.terminal import open_console, print_line, warn


def compare(
    run_a: Annotated[str, typer.Argument(help="The tagger to start from: a folder, or hf-hub:owner/name.")],
    run_b: Annotated[str, typer.Argument(help="The tagger that may be better.")],
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
    """Compare two taggers on a labelled table: which labels gained, which lost, and whether at each other's cost.

    Example: tagloom compare runs/first runs/second photos/val.csv --plot compare.png
    """
    from tagloom.api.scoring import compare as compare_taggers
    from tagloom.api.scoring import open_two
    from tagloom.evaluation.compare import shared_classes
    from tagloom.evaluation.label_pairs import cross_label_gaps, read_pair
    from tagloom.report.comparison import comparison_to_dict, render_comparison
    from tagloom.report.comparison_chart import draw_comparison
    from tagloom.report.drawing import check_drawable

    if plot:
        check_drawable(plot)  # before minutes of scoring, like all that can be wrong with --gap
    console = open_console()
    first, second = open_two(run_a, run_b, device)
    wanted = [read_pair(text, shared_classes(first.classes, second.classes)) for text in gap or []]
    comparison = compare_taggers(
        first,
        second,
        data,
        ignore_other_labels=ignore_other_labels,
        resamples=resamples,
        data_options=read_pairs(data_option),
    )
    gaps = cross_label_gaps(comparison, wanted)
    render_comparison(comparison, (run_a, run_b), console, gaps, least=least, pairs=pairs, every=every)
    for error in comparison.broken:
        warn(f"left out: {error}")
    measured = {found.labels for found in gaps}
    for one, two in wanted:
        if (one, two) not in measured:
            warn(f"no gap between {one} and {two}: one of them has no positive image in {data}.")
    if json_path:
        content = comparison_to_dict(comparison, gaps, least=least, pairs=pairs)
        write_json(json_path, {"first": run_a, "second": run_b, "data": data, **content})
    if plot:
        print_line(console, f"Drawn in {draw_comparison(comparison, short_names(run_a, run_b), plot, gaps)}")


def short_names(first: str, second: str) -> tuple[str, str]:
    """Name two runs in a drawing: by the last part of their paths, or by the whole paths if those parts are the same.

    >>> short_names("runs/probe", "runs/decoder/"), short_names("a/tagger", "b/tagger")
    (('probe', 'decoder'), ('a/tagger', 'b/tagger'))
    """
    names = Path(first).name, Path(second).name
    return names if all(names) and names[0] != names[1] else (first, second)
