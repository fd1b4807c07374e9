"""`tagloom study`."""

from pathlib import Path
from typing import Annotated

import typer

from tagloom.cli.arguments import Cache, DataOptions, Device, Plot, Settings, Val, read_pairs
from tagloom.errors import TagloomError
from tagloom.terminal import open_console, print_line, warn
from tagloom.training.signals import Interrupted


def study(
    rows: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE",
            help="Recipes, by name or as .yaml files; those with a distill section are distilled. Folders of finished "
            "runs join the table as they are.",
        ),
    ],
    data: Annotated[
        str | None, typer.Option(help="The training table. Leave it out if all rows are finished runs.")
    ] = None,
    val: Val = None,
    seeds: Annotated[
        str, typer.Option(help="Number of seeds, 0, 1, 2 and so on, or which ones, with commas: 3,4")
    ] = "3",
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            help="Run with each of these values: preprocess.size=160,224,288. Repeatable: the first is the chart's "
            "horizontal axis, others make lines."
        ),
    ] = None,
    settings: Settings = None,
    out: Annotated[
        Path | None, typer.Option(help="Write runs and tables to this folder (default: runs/study).")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Show this metric. Repeatable; the first is drawn (default: mAP, CF1, OF1)."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help="Draw against a setting, or against multiply-adds, parameters or seconds."),
    ] = None,
    plot: Plot = None,
    jobs: Annotated[int, typer.Option(help="Number of teachers to train at once.", min=1)] = 1,
    device: Device = "auto",
    cache: Cache = None,
    data_option: DataOptions = None,
) -> None:
    """Run recipes over several seeds: one table of mean and spread, and one chart.

    Example: tagloom study quick-gap quick --data photos/train.csv --val photos/val.csv --seeds 3 --out runs/heads

    Stop at any time with Ctrl-C and repeat the command to continue: finished runs are kept. The same command in a
    second process takes over runs that nobody is working at.

    A variant of your own is a recipe file of a few lines: base: quick, a name, and what it changes.
    """
    from tagloom.api import study as run_study
    from tagloom.recipe import read_settings
    from tagloom.report.drawing import check_drawable
    from tagloom.report.study import render_study
    from tagloom.report.study_chart import draw_study
    from tagloom.studies.variants import read_sweep

    if plot:
        check_drawable(plot)
    try:
        result = run_study(
            rows,
            data,
            val=val,
            out=out,
            seeds=read_seeds(seeds),
            settings=read_settings(settings or []),
            sweeps=dict(read_sweep(text) for text in sweep or []),
            metrics=metric,
            against=against,
            jobs=jobs,
            device=device,
            cache=cache,
            data_options=read_pairs(data_option),
        )
    except Interrupted:
        warn("stopped on request. Repeat the same command to continue.")
        raise
    console = open_console()
    render_study(result, console)
    if out or data:
        print_line(console, f"The table is in {(out or Path('runs/study')) / 'table.md'}, table.csv and results.json.")
    if plot:
        print_line(console, f"Drawn in {draw_study(result, plot)}")


def read_seeds(text: str) -> int | list[int]:
    """Read --seeds: how many, or which.

    >>> read_seeds("3"), read_seeds("3,5"), read_seeds("3,")
    (3, [3, 5], [3])
    """
    try:
        found = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        found = []
    if not found or min(found) < 0 or ("," not in text and found == [0]):
        raise TagloomError(
            f"--seeds {text}: give their number, for example 3, or list them with commas, for example 3,4"
        )
    return found if "," in text else found[0]
