"""`tagloom report`."""

from pathlib import Path
from typing import Annotated

import typer

from tagloom.cli.arguments import Data, DataOptions, Device, IgnoreOtherLabels, Run, read_table
from tagloom.progress import show_progress
from tagloom.recipe.parts import MAX_BROKEN_SHARE
from tagloom.terminal import open_console, print_line, warn


def report(
    run: Run,
    data: Data,
    out: Annotated[Path, typer.Option(help="Write the report here: an .html file.")] = Path("report.html"),
    max_broken: Annotated[
        float, typer.Option(help="Accept this share of unreadable images, from 0 to 1.", min=0, max=1)
    ] = MAX_BROKEN_SHARE,
    ignore_other_labels: IgnoreOtherLabels = False,
    device: Device = "auto",
    data_option: DataOptions = None,
) -> None:
    """Write a report on a tagger: one HTML file that opens offline, with everything inside.

    Example: tagloom report runs/first photos/val.csv --out report.html

    It has the figures of tagloom evaluate, a table of classes that sorts and filters, precision and recall, scores and
    their reliability, what moving thresholds costs, wrong tags and the labels they come with, the hardest images with
    heat maps, labels that look wrong, the curves of the training, size and speed.
    """
    from tagloom.predict.tagger import find_folder, load
    from tagloom.report.page import write_report

    console = open_console()
    tagger = load(run, device=device)
    table = read_table(data, data_option)
    with show_progress(console, f"scoring ({tagger.engine})") as progress:
        facts = write_report(
            tagger,
            table,
            find_folder(run),
            out,
            max_broken=max_broken,
            ignore_other_labels=ignore_other_labels,
            progress=progress,
            note=warn,
        )
    for error in facts.result.broken:
        warn(f"left out: {error}")
    print_line(console, f"mAP {facts.result.metrics['mAP']:.2f} on {facts.result.metrics['images']:,} images")
    print_line(console, f"Written to {out} ({out.stat().st_size / 1e6:.1f} MB): open it in a browser")
