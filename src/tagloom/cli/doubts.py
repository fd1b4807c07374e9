"""`tagloom doubts`."""

from pathlib import Path
from typing import Annotated

import typer

from tagloom.cli.arguments import (
    Cache,
    Data,
    DataOptions,
    Device,
    JsonPath,
    Settings,
    read_pairs,
    read_table,
    write_json,
)
from tagloom.errors import TagloomError
from tagloom.terminal import open_console, print_line, warn
from tagloom.wording import counted

_ON_SHEET = 24  # pictures of each kind


def doubts(
    data: Data,
    out: Annotated[
        Path, typer.Option(help="Write the doubts to this .csv file; with --apply, the corrected table (.csv, .jsonl).")
    ],
    recipe: Annotated[str, typer.Option(help="Train with this recipe: a name or a .yaml file.")] = "quick-gap",
    folds: Annotated[int, typer.Option(help="Number of parts; each is scored by a tagger of the others.", min=2)] = 4,
    count: Annotated[int, typer.Option(help="Number of doubts to write, worst first.", min=1)] = 1000,
    sheet: Annotated[Path | None, typer.Option(help="Draw the first doubts: a .png file.")] = None,
    apply: Annotated[
        Path | None, typer.Option(help="Correct the table by the answers in this .csv file instead of finding doubts.")
    ] = None,
    json_path: JsonPath = None,
    settings: Settings = None,
    device: Device = "auto",
    cache: Cache = None,
    data_option: DataOptions = None,
) -> None:
    """Find labels that look wrong or missing, and correct the table by your answers.

    Example: tagloom doubts photos/train.csv --out doubts.csv --sheet doubts.png

    Each image is scored by taggers that did not learn from it. Look at the doubts, write yes or no into the column
    'answer' where you know whether the image has the label, and leave the rest empty. Then:

    tagloom doubts photos/train.csv --apply doubts.csv --out corrected.csv
    """
    if apply is not None:
        if sheet or json_path:
            raise TagloomError("--apply corrects a table: leave out --sheet and --json.")
        _apply(data, data_option, apply, out)
        return
    from tagloom.api.doubting import find_label_doubts
    from tagloom.evaluation.doubts import write_doubts
    from tagloom.recipe.loading import read_settings
    from tagloom.report.doubts import draw_doubts, render_doubts

    if out.suffix != ".csv":
        raise TagloomError(f"{out}: doubts are written as .csv; use this suffix.")
    if sheet is not None and sheet.suffix != ".png":
        raise TagloomError(f"{sheet}: the sheet is drawn as .png; use this suffix.")
    report = find_label_doubts(
        data,
        recipe=recipe,
        folds=folds,
        count=count,
        settings=read_settings(settings or []),
        device=device,
        cache=cache,
        data_options=read_pairs(data_option),
    )
    console = open_console()
    render_doubts(report, console)
    if report.unreadable:
        warn(f"{report.unreadable} images cannot be read and are left out; 'tagloom check' names them")
    print_line(console, f"{counted(len(report.doubts), 'doubt')}, in {write_doubts(report, out)}")
    if json_path:
        write_json(json_path, report.to_dict())
    if sheet:
        print_line(console, f"Drawn in {draw_doubts(report, sheet, _ON_SHEET)}")


def _apply(data: str, data_option: list[str] | None, answers: Path, out: Path) -> None:
    """Write a corrected copy of a table."""
    from dataclasses import replace

    from tagloom.data.corrections import correct, read_answers
    from tagloom.data.writing import write_known_pairs
    from tagloom.predict.files import Naming

    table = read_table(data, data_option)
    if out.exists() and out.resolve() == Path(data).resolve():
        raise TagloomError(f"{out}: is the table itself. Write the corrected copy to another file.")
    result = correct(table, read_answers(answers), str(answers))
    naming = Naming(out.parent)
    images = [naming.path(table.path(row)) for row in range(len(table))]
    try:
        write_known_pairs(replace(result.table, images=images), out)
    except OSError as error:
        raise TagloomError(f"{out}: cannot be written ({error}). Name another --out.") from error
    print_line(
        open_console(),
        f"{counted(result.added, 'label')} added, {result.removed} taken away and {result.confirmed} confirmed, "
        f"in {out}",
    )
