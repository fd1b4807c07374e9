"""`tagloom predict`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from tagloom.cli.arguments import Device, Words
from tagloom.errors import TagloomError
from tagloom.progress import show_progress
from tagloom.terminal import note, open_console, print_line, warn
from tagloom.training.signals import Interrupted, StopRequest
from tagloom.wording import printable

if TYPE_CHECKING:
    from tagloom.predict.tagger import Tag, Tagger


def predict(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN] IMAGES...",
            help="A tagger folder or hf-hub:owner/name, or nothing for the ready tagger; then image files, and folders "
            "to search.",
            show_default=False,
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Write the tags to this .csv or .jsonl file.")] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Use one threshold for all classes (default: the tagger's own).", min=0, max=1),
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Keep at most this many tags per image.", min=1)] = None,
    labels: Annotated[
        str | None,
        typer.Option(help="Choose among these labels, trained or not: 'surfboard, wedding', or a .txt, one per line."),
    ] = None,
    words: Words = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a prediction with --out that was stopped. Repeat its options.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Tag images. Without a tagger, the ready one is used, which comes with Tagloom.

    Example: tagloom predict runs/first photos --out tags.csv

    An unreadable image is reported and skipped. Exits with 1 if no image could be read.

    With --out you can stop at any time with Ctrl-C and continue with --resume: the file is the same, byte for byte.
    """
    from tagloom.predict.files import collect_images, read_labels, split_arguments, tag_files
    from tagloom.predict.tagger import load

    if resume and out is None:
        raise TagloomError("--resume continues a prediction that writes a file. Name that file with --out.")
    run, images = split_arguments(places)
    paths = collect_images(images)
    tagger = load(run, device=device, words=words)
    if run is None:  # a folder that was meant as a tagger would otherwise silently be searched for images
        note("no tagger is named: tagging with the ready one, which comes with Tagloom")
    if labels is not None:
        tagger = tagger.with_labels(read_labels(labels))
    console = open_console()
    if out:
        failed = _predict_to_file(tagger, paths, out, console, threshold=threshold, top_k=top_k, resume=resume)
    else:
        failed = 0
        for path, tags in tag_files(tagger, paths, threshold=threshold, top_k=top_k):
            if isinstance(tags, list):
                console.print(_line(path, tags), soft_wrap=True)
            else:
                failed += 1
                warn(str(tags))
    if failed == len(paths):
        raise typer.Exit(1)


def _predict_to_file(
    tagger: "Tagger",
    paths: list[Path],
    out: Path,
    console: Console,
    *,
    threshold: float | None,
    top_k: int | None,
    resume: bool,
) -> int:
    """Write the tags to a file, and give the number of images that cannot be read. Stop when somebody asks to."""
    from tagloom.predict.files import tag_to_file

    done = -1
    with StopRequest() as stop, show_progress(console, "tagging") as progress:

        def after_image(count: int, total: int) -> None:
            nonlocal done
            if resume and done < 0 and count == 0:
                note(f"{out}: nothing to continue here, so this starts with the first image")
            done = count
            progress(count, total)
            stop.leave_if_requested()

        try:
            found = tag_to_file(
                tagger,
                paths,
                out,
                threshold=threshold,
                top_k=top_k,
                resume=resume,
                on_error=lambda error: warn(str(error)),
                on_image=after_image,
            )
        except Interrupted:
            how = f"{done:,} of {len(paths):,} images are done. Continue with the same command and --resume"
            warn(f"stopped on request: {how if done > 0 else 'no image is done yet'}")
            raise
    print_line(console, f"{found.tagged} of {len(paths)} images tagged, in {out}")
    return found.failed


def _line(path: Path, tags: "list[Tag]") -> Text:
    """Show an image and its tags on one line."""
    parts: list[tuple[str, str]] = [(printable(str(path)), "")]
    for tag in tags:
        parts += [("  ", ""), (printable(tag.label), "bold"), (f" {tag.score:.2f}", "dim")]
    return Text.assemble(*parts, *([] if tags else [("  no label above its threshold", "dim")]))
