"""`tagloom hard`."""

from pathlib import Path
from typing import Annotated

import typer

from tagloom.cli.arguments import Data, DataOptions, Device, IgnoreOtherLabels, JsonPath, Run, read_table, write_json
from tagloom.errors import TagloomError
from tagloom.extras import needs_train
from tagloom.progress import show_progress
from tagloom.terminal import open_console, print_line, warn


def hard(
    run: Run,
    data: Data,
    count: Annotated[int, typer.Option(help="Number of images to list and draw.", min=1, max=500)] = 20,
    every: Annotated[bool, typer.Option("--all", help="Print all classes, not only the ten hardest.")] = False,
    json_path: JsonPath = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the images with their tags: a .png file.")] = None,
    ignore_other_labels: IgnoreOtherLabels = False,
    device: Device = "auto",
    data_option: DataOptions = None,
) -> None:
    """Find hard instances: the images and the classes whose true labels score lowest.

    Example: tagloom hard runs/first photos/val.csv --plot hard.png

    For a layover tagger it also shows α, how much of the intermediate stages it mixes in, per image and as a mean over
    the positive images of each class.
    """
    from tagloom.evaluation.hard import find_hard
    from tagloom.predict.tagger import find_folder, load
    from tagloom.report.hard import draw_hard, render_hard

    if plot and plot.suffix.lower() != ".png":
        raise TagloomError(f"{plot}: the images are drawn as a .png file; end the name in .png.")
    console = open_console()
    tagger = load(run, device=device)
    table = read_table(data, data_option)
    with show_progress(console, f"scoring ({tagger.engine})") as progress:
        report = find_hard(tagger, table, count=count, ignore_other_labels=ignore_other_labels, progress=progress)
    if tagger.spec.head == "layover":
        with needs_train("α of a layover tagger"):
            from tagloom.explain.layover import mixing_amounts
        with show_progress(console, "mixing amounts") as progress:
            found = mixing_amounts(find_folder(run), report.paths, device=device, progress=progress)
        if found is not None:
            report = report.with_alpha(found[1].sum(axis=1))
    render_hard(report, console, most_classes=None if every else 10)
    for error in report.broken:
        warn(f"left out: {error}")
    if json_path:
        write_json(json_path, {"run": run, "data": data, **report.to_dict()})
    if plot:
        print_line(console, f"Drawn in {draw_hard(report, plot)}")
