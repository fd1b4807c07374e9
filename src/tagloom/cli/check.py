"""`tagloom check`."""

from typing import Annotated

import typer

from tagloom.cli.arguments import Data, DataOptions, JsonPath, read_table, write_json
from tagloom.progress import show_progress
from tagloom.terminal import open_console


def check(
    data: Data,
    val: Annotated[str | None, typer.Option(help="Also look for images that this validation table shares.")] = None,
    json_path: JsonPath = None,
    data_option: DataOptions = None,
) -> None:
    """Check a label table before training: classes, labels per image, broken, missing and duplicate images, leaks.

    Example: tagloom check photos/train.csv --val photos/val.csv

    Exits with 1 if training on the table is not possible.
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
