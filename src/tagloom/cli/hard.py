"""`tagloom hard`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tagloom.cli.arguments import Data, DataOptions, Device, IgnoreOtherLabels, JsonPath, read_table, write_json
from tagloom.cli.compare import short_names
from tagloom.errors import TagloomError
from tagloom.extras import needs_train
from tagloom.progress import show_progress
from tagloom.terminal import open_console, print_line, warn

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from tagloom.data import LabelTable
    from tagloom.evaluation.hard import HardReport
    from tagloom.evaluation.one_class import ClassRanking
    from tagloom.evaluation.tenths import Tenths


def hard(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="A tagger folder, or hf-hub:owner/name. Name several to compare classes."),
    ],
    data: Data,
    label: Annotated[
        str | None,
        typer.Option("--class", help="Show the images of this class that score highest and lowest, side by side."),
    ] = None,
    count: Annotated[
        int, typer.Option(help="Number of images to list and draw; with --class, half of each.", min=1, max=500)
    ] = 20,
    by: Annotated[
        Literal["score", "alpha"],
        typer.Option(help="Order classes by mean score, or by the mean α of a layover tagger, largest first."),
    ] = "score",
    every: Annotated[bool, typer.Option("--all", help="Print all classes, not only the first ten.")] = False,
    json_path: JsonPath = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the images with their tags: a .png file. Of several taggers, a chart.")
    ] = None,
    ignore_other_labels: IgnoreOtherLabels = False,
    device: Device = "auto",
    data_option: DataOptions = None,
) -> None:
    """Find hard instances: the images and the classes whose true labels score lowest.

    Example: tagloom hard runs/first photos/val.csv --plot hard.png

    For a layover tagger it also shows α, how much of the intermediate stages it mixes in, per image and as a mean over
    the positive images of each class.

    With --class it ranks the images of one class. Of several taggers it shows which classes are in the best and in the
    worst tenth of each.
    """
    if len(runs) > 1 and (label is not None or by != "score"):
        raise TagloomError("--class and --by are about one tagger: name one.")
    if label is not None and by != "score":
        raise TagloomError("--by orders classes, and --class shows one: leave one of them out.")
    _check_plot(plot, several=len(runs) > 1)
    table, console = read_table(data, data_option), open_console()
    known: dict[str, Any] = {"ignore_other_labels": ignore_other_labels}
    report: Tenths | ClassRanking | HardReport
    if len(runs) > 1:
        report, draw = _several(runs, device, table, known, console)
    elif label is not None:
        report, draw = _class(runs[0], device, table, known, console, label, max(1, count // 2))
    else:
        report, draw = _hardest(runs[0], device, table, known, console, count, by, None if every else 10)
    for error in report.broken:
        warn(f"left out: {error}")
    if json_path:
        named = {"runs": runs} if len(runs) > 1 else {"run": runs[0]}
        write_json(json_path, {**named, "data": data, **report.to_dict()})
    if plot:
        print_line(console, f"Drawn in {draw(plot)}")


def _several(
    runs: list[str], device: str, table: "LabelTable", known: dict[str, Any], console: "Console"
) -> "tuple[Tenths, Callable[[Path], Path]]":
    """Show the best and the worst tenth of the classes in several taggers."""
    from tagloom.api.scoring import open_different
    from tagloom.evaluation.tenths import class_tenths
    from tagloom.report.tenths import draw_tenths, render_tenths

    taggers = open_different(runs, device)
    with show_progress(console, "scoring") as progress:
        tenths = class_tenths(taggers, table, progress=progress, **known)
    render_tenths(tenths, runs, console)
    return tenths, partial(draw_tenths, tenths, short_names(*runs))


def _class(
    run: str, device: str, table: "LabelTable", known: dict[str, Any], console: "Console", label: str, count: int
) -> "tuple[ClassRanking, Callable[[Path], Path]]":
    """Show both ends of one class."""
    from tagloom.evaluation.one_class import rank_class
    from tagloom.predict.tagger import load
    from tagloom.report.hard import draw_class, render_class

    tagger = load(run, device=device)
    with show_progress(console, f"scoring ({tagger.engine})") as progress:
        ranking = rank_class(tagger, table, label, count=count, progress=progress, **known)
    render_class(ranking, console)
    return ranking, partial(draw_class, ranking)


def _hardest(
    run: str,
    device: str,
    table: "LabelTable",
    known: dict[str, Any],
    console: "Console",
    count: int,
    by: str,
    most_classes: int | None,
) -> "tuple[HardReport, Callable[[Path], Path]]":
    """Show the hardest images and classes of one tagger."""
    from tagloom.evaluation.hard import find_hard
    from tagloom.predict.tagger import find_folder, load
    from tagloom.report.hard import draw_hard, render_hard

    tagger = load(run, device=device)
    mixes = tagger.spec.head == "layover"
    if by == "alpha" and not mixes:
        raise TagloomError(f"{run}: only a layover tagger has α, and this one has the head {tagger.spec.head!r}.")
    with show_progress(console, f"scoring ({tagger.engine})") as progress:
        report = find_hard(tagger, table, count=count, progress=progress, **known)
    if mixes:
        with needs_train("α of a layover tagger"):
            from tagloom.explain.layover import mixing_amounts
        with show_progress(console, "mixing amounts") as progress:
            found = mixing_amounts(find_folder(run), report.paths, device=device, progress=progress)
        if found is not None:
            report = report.with_alpha(found[1].sum(axis=1), order=by == "alpha")
        elif by == "alpha":
            raise TagloomError(
                f"{run}: this layover tagger has no α per image. Train one that has: --recipe layover, or --set "
                "head.options.mixing=image."
            )
    render_hard(report, console, most_classes)
    return report, partial(draw_hard, report)


def _check_plot(plot: Path | None, *, several: bool) -> None:
    """Refuse a file that cannot be drawn before any work."""
    if plot and several:
        from tagloom.report.drawing import check_drawable

        check_drawable(plot)
    elif plot and plot.suffix.lower() != ".png":
        raise TagloomError(f"{plot}: the images are drawn as a .png file; end the name in .png.")
