"""`tagloom predict`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from tagloom.cli.arguments import Device, Words
from tagloom.progress import show_progress
from tagloom.terminal import counted, note, open_console, warn


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
    device: Device = "auto",
) -> None:
    """Tag images. Without a tagger, the ready one is used, which comes with Tagloom.

    Example: tagloom predict runs/first photos --out tags.csv

    An unreadable image is reported and skipped. Exits with 1 if no image could be read.
    """
    from tagloom.predict.files import collect_images, read_labels, split_arguments, tag_files, write_tags
    from tagloom.predict.tagger import load

    run, images = split_arguments(places)
    paths = collect_images(images)
    tagger = load(run, device=device, words=words)
    if run is None:  # a folder that was meant as a tagger would otherwise silently be searched for images
        note("no tagger is named: tagging with the ready one, which comes with Tagloom")
    if labels is not None:
        tagger = tagger.with_labels(read_labels(labels))
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
        console.print(f"{done} of {len(paths)} images tagged, in {out}", markup=False, soft_wrap=True)
    else:
        for path, tags in readable():
            shown = "  ".join(f"[bold]{escape(tag.label)}[/] [dim]{tag.score:.2f}[/]" for tag in tags)
            console.print(f"{escape(str(path))}  {shown or '[dim]no label above its threshold[/]'}", soft_wrap=True)
    if failed == len(paths):
        raise typer.Exit(1)
