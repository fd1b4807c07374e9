"""`tagloom export`."""

from pathlib import Path
from typing import Annotated

import typer

from tagloom.cli.arguments import Run
from tagloom.extras import needs_train
from tagloom.terminal import open_console, print_line


def export(
    run: Run,
    out: Annotated[Path, typer.Option(help="Write to this folder; no existing file is overwritten.")],
    float16: Annotated[
        bool, typer.Option("--float16", help="Store the weights in half the bytes; they still compute in float32.")
    ] = False,
) -> None:
    """Write a small folder that predicts without torch: tagger.json, model.onnx and the model card.

    Example: tagloom export runs/first --float16 --out small

    With --float16 the scores are compared with the run's. Nothing is written if they differ by more than 0.02.
    """
    with needs_train("exporting"):
        import onnx  # noqa: F401 - imported here so that the message comes before any work

        from tagloom.predict.package import write_package
    from tagloom.predict.tagger import find_folder
    from tagloom.tagger.spec import ONNX_FILE

    worst = write_package(find_folder(run), out, float16=float16)
    size = (out / ONNX_FILE).stat().st_size / 1e6
    compared = "" if worst is None else f", and its scores differ from the run's by at most {worst:.4f}"
    print_line(open_console(), f"Written to {out}: {ONNX_FILE} has {size:.1f} MB{compared}.")
