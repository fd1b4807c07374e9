"""`tagloom export`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tagloom.cli.arguments import DataOptions, read_table
from tagloom.errors import TagloomError
from tagloom.extras import needs_train
from tagloom.progress import show_progress
from tagloom.tagger.spec import VOCABULARY_FILE
from tagloom.terminal import open_console, print_line

if TYPE_CHECKING:
    from tagloom.export.package import Measured, Stored


def export(
    out: Annotated[Path, typer.Option(help="Write to this folder; no existing file is overwritten.")],
    run: Annotated[
        str | None,
        typer.Argument(
            help="A tagger folder (the --out of a training), or hf-hub:owner/name; nothing for the ready tagger."
        ),
    ] = None,
    float16: Annotated[
        bool, typer.Option("--float16", help="Store the weights in half the bytes; they still compute in float32.")
    ] = False,
    int8: Annotated[
        bool, typer.Option("--int8", help="Compute in eight bits: under a third of the bytes, and faster.")
    ] = False,
    calibrate: Annotated[
        list[Path] | None,
        typer.Option(help="With --int8: some hundred images like those that will be tagged. Files or folders."),
    ] = None,
    preprocess_inside: Annotated[
        bool, typer.Option("--preprocess-inside", help="Add standalone.onnx, which takes pictures of any size.")
    ] = False,
    scores_inside: Annotated[
        bool, typer.Option("--scores-inside", help="Add standalone.onnx, which gives calibrated scores.")
    ] = False,
    to: Annotated[
        Literal["onnx", "torch-export"], typer.Option(help="With torch-export, add model.pt2 for torch.export.load.")
    ] = "onnx",
    labels: Annotated[
        str | None,
        typer.Option(help="With word queries: tag with these labels. 'surfboard, wedding', or a .txt, one per line."),
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            help="With word queries: add the vectors of the words in this .txt file, one per line. They then need no "
            "encoder. A line such as 'rucksack = rucksack, backpack' says what is encoded for a word."
        ),
    ] = None,
    check: Annotated[
        str | None, typer.Option(help="Compare mAP on this label table as well, with --float16 or --int8.")
    ] = None,
    data_option: DataOptions = None,
    keep_anyway: Annotated[
        bool, typer.Option("--keep-anyway", help="Keep what would be refused, for example for another machine.")
    ] = False,
) -> None:
    """Write a small folder that predicts without torch: tagger.json, model.onnx and the model card.

    Example: tagloom export runs/first --int8 --calibrate photos --out small

    With --float16 or --int8 the folder is compared with the run: scores, tags, speed, and mAP with --check. Nothing is
    written if they differ too much, or if eight bits are slower.
    """
    if float16 and int8:
        raise TagloomError("--float16 and --int8 exclude each other: name one.")
    if int8 != bool(calibrate):
        raise TagloomError(
            "--int8 and --calibrate PHOTOS go together: the images show which values need to be told apart."
        )
    stored: Stored = "int8" if int8 else "float16" if float16 else "float32"
    if stored == "float32" and (check is not None or keep_anyway):
        raise TagloomError("--check and --keep-anyway are for --float16 and --int8; float32 is copied as it is.")
    with needs_train("exporting"):
        import onnx  # noqa: F401 - imported here so that the message comes before any work

        from tagloom.export.labels import read_vocabulary
        from tagloom.export.package import Extras, write_package
    from tagloom.predict.files import read_labels
    from tagloom.predict.tagger import find_folder

    console = open_console()
    with show_progress(console, "exporting") as progress:
        measured = write_package(
            find_folder(run),
            out,
            stored=stored,
            calibrate=calibrate or (),
            extras=Extras(preprocess_inside, scores_inside, to == "torch-export"),
            labels=() if labels is None else read_labels(labels),
            vocabulary=None if vocabulary is None else read_vocabulary(vocabulary),
            check=None if check is None else read_table(check, data_option),
            keep_anyway=keep_anyway,
            progress=progress,
        )
    for line in _told(out, measured):
        print_line(console, line)


def _told(out: Path, measured: "Measured | None") -> list[str]:
    files = [path for path in sorted(out.iterdir()) if path.suffix in (".onnx", ".pt2") or path.name == VOCABULARY_FILE]
    sizes = ", ".join(f"{path.name} has {path.stat().st_size / 1e6:.1f} MB" for path in files)
    lines = [f"Written to {out}: {sizes}."]
    if measured is not None:
        found = measured.agreement
        lines.append(
            f"Compared with float32: scores differ by at most {found.largest:.4f}, on average by {found.mean:.4f}, and "
            f"{100 * found.tags:.1f} % of tags are the same. It is {measured.speed:.2f} times as fast on one core here."
        )
        if measured.precision is not None:
            lines.append("mAP {:.2f} instead of {:.2f}.".format(*measured.precision[::-1]))
        if measured.in_float:
            lines.append(f"In float32 stayed: {', '.join(measured.in_float)}.")
    return lines
