"""Verbs on data: check, scenes."""

from pathlib import Path
from typing import Annotated

import typer

from tagloom.cli.arguments import Data, DataOptions, read_table, write_json
from tagloom.progress import show_progress
from tagloom.terminal import open_console


def check(
    data: Data,
    val: Annotated[str | None, typer.Option(help="Validation table: also look for images that are in both.")] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the whole audit to this file.")] = None,
    data_option: DataOptions = None,
) -> None:
    """Audit a label table: classes, labels per image, broken, missing and duplicate images, leaks into validation data.

    Exits with 1 when training on it would not be possible.
    """
    from tagloom.data.audit import audit
    from tagloom.report.audit import render_audit

    console = open_console()
    table = read_table(data, data_option)
    other = read_table(val, data_option) if val else None
    with show_progress(console, "reading images") as progress:
        result = audit(table, other, progress=progress)
    render_audit(result, console)
    if json_path:
        write_json(json_path, result.to_dict())
    if not result.trainable:
        raise typer.Exit(1)


def scenes(
    folder: Annotated[Path, typer.Argument(help="Where to write it.")],
    images: Annotated[
        int, typer.Option(help="Training pictures; a quarter as many for each other part.", min=8)
    ] = 1200,
    seed: Annotated[int, typer.Option(help="Other seeds give other pictures.")] = 0,
) -> None:
    """Write the embedded data set: pictures drawn by code, with labels, to try everything on."""
    from tagloom.data.scenes import write_scenes

    console = open_console()
    part = max(images // 4, 2)
    with show_progress(console, "drawing") as progress:
        write_scenes(folder, train=images, val=part, test=part, seed=seed, progress=progress)
    console.print(f"Written to {folder}. Try: tagloom check {folder}/train.csv")
