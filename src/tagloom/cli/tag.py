"""Verbs that use a tagger: evaluate, predict."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from tagloom.cli.arguments import Data, DataOptions, Device, IgnoreOtherLabels, Run, read_table, write_json
from tagloom.terminal import counted, open_console, show_progress, warn


def evaluate(
    run: Run,
    data: Data,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the metrics to this file.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="One threshold for all classes; by default the tagger's own.", min=0, max=1)
    ] = None,
    ignore_other_labels: IgnoreOtherLabels = False,
    device: Device = "auto",
    data_option: DataOptions = None,
) -> None:
    """Score a tagger on a labelled table: mAP, precision, recall and F1, per class and over all."""
    from tagloom.inference.evaluation import evaluate as evaluate_tagger
    from tagloom.inference.predictor import load
    from tagloom.report.metrics import render_metrics

    console = open_console()
    tagger = load(run, device=device)
    table = read_table(data, data_option)
    with show_progress(console, f"scoring ({tagger.engine})") as progress:
        result = evaluate_tagger(
            tagger, table, threshold=threshold, ignore_other_labels=ignore_other_labels, progress=progress
        )
    render_metrics(result.metrics, tagger.classes, console)
    for error in result.broken:
        warn(f"left out: {error}")
    if json_path:
        write_json(json_path, result.metrics)


def predict(
    run: Run,
    pictures: Annotated[list[Path], typer.Argument(help="Image files, and folders to search.")],
    out: Annotated[Path | None, typer.Option(help="Write tags to this .csv or .jsonl file.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Score from which a label counts; by default chosen per class.", min=0, max=1)
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="At most so many labels per picture.", min=1)] = None,
    device: Device = "auto",
) -> None:
    """Put labels on pictures. A picture that cannot be read is named and passed over.

    Exits with 1 when no picture could be read.
    """
    from tagloom.inference.predictor import load
    from tagloom.inference.tagging import collect_images, tag_files, write_tags

    paths = collect_images(pictures)
    tagger = load(run, device=device)
    console = open_console()
    failed = 0

    def readable() -> Iterator[tuple[Path, Any]]:
        nonlocal failed
        for path, tags in tag_files(tagger, paths, threshold=threshold, top_k=top_k):
            if isinstance(tags, list):
                yield path, tags
            else:
                failed += 1
                warn(str(tags))

    if out:
        with show_progress(console, "tagging") as progress:
            done = write_tags(counted(readable(), len(paths), progress), out)
        console.print(f"{done} of {len(paths)} pictures tagged, in {out}")
    else:
        for path, tags in readable():
            shown = "  ".join(f"[bold]{escape(tag.label)}[/] [dim]{tag.score:.2f}[/]" for tag in tags)
            console.print(f"{escape(str(path))}  {shown or '[dim]no label over its threshold[/]'}", soft_wrap=True)
    if failed == len(paths):
        raise typer.Exit(1)
