"""`tagloom review`."""

from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tagloom.cli.arguments import Cache, DataOptions, Device, read_pairs
from tagloom.errors import TagloomError
from tagloom.extras import needs_serve
from tagloom.progress import show_progress
from tagloom.terminal import note, open_console, print_line, warn

if TYPE_CHECKING:
    from tagloom.review.session import Session


class Export(StrEnum):
    """What a review is written as."""

    labels = "labels"
    corrections = "corrections"
    keywords = "keywords"


def review(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN] TABLE|PHOTOS...",
            help="A tagger folder, tagloom:any or hf-hub:owner/name, or nothing for the ready tagger; then a label "
            "table, a folder of photos, or photos.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Keep the answers in this folder. The same command continues there.")
    ] = Path("review"),
    doubts: Annotated[
        Path | None,
        typer.Option(
            help="Ask first about the images that this .csv file names, in its order: tagloom doubts writes one."
        ),
    ] = None,
    export: Annotated[
        Export | None,
        typer.Option(
            help="Open no page; write what was answered: labels (a table), corrections (what was changed), or keywords "
            "(XMP sidecars next to the photos).",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Listen on this address. Another than loopback needs --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Listen on this port; 0 for any that is free.", min=0, max=65535)] = 8701,
    token: Annotated[
        str | None,
        typer.Option(help="Answer only requests that carry this token.", envvar="TAGLOOM_TOKEN", show_default=False),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    data_option: DataOptions = None,
    cache: Cache = None,
    device: Device = "auto",
) -> None:
    """Open a page to accept and correct tags from the keyboard, the most useful photos first.

    Example: tagloom review ~/Photos --out review

    Enter accepts the labels shown, 1 to 9 change them. Every answer is on disk at once, in answers.jsonl: a review that
    was stopped or killed goes on with the same command. Retrain (needs torch) makes the suggestions better in seconds.
    """
    with needs_serve("reviewing"):
        from tagloom.serve.guard import Access
        from tagloom.serve.reviewing import create_review_app
        from tagloom.serve.run import listen, make_server, open_page, page_address
    from tagloom.cache_folder import default_cache_folder
    from tagloom.predict.files import on_this_disk, split_arguments
    from tagloom.predict.tagger import load
    from tagloom.review.opening import open_session
    from tagloom.training.lock import locked

    run, given = split_arguments(places)
    access = Access(host, token)
    tagger = load(run, device=device)
    if run is None:
        note("no tagger is named: suggesting with the ready one, which comes with Tagloom")
    console = open_console()
    out.mkdir(parents=True, exist_ok=True)
    with locked(out):
        with show_progress(console, "scoring photos") as progress:
            session, errors = open_session(
                tagger,
                on_this_disk(given),
                out,
                options=read_pairs(data_option),
                doubts=doubts,
                cache_folder=cache or default_cache_folder(),
                device=device,
                progress=progress,
            )
        for unreadable in errors[:5]:
            warn(f"left out: {unreadable}")
        if len(errors) > 5:
            warn(f"left out: {len(errors) - 5:,} more images that cannot be read")
        if export is not None:
            print_line(console, _exported(session, export))
            return
        opened = listen(host, port)
        address = page_address(opened, token)

        def started() -> None:
            print_line(console, f"Reviewing {len(session.table):,} photos at {address}")
            note(f"{session.answered:,} are answered, in {out}. Ctrl-C stops it; the same command continues")
            if session.has_learned:
                note("learning again from your answers, in the background")
            if open_browser:
                open_page(address)

        make_server(create_review_app(session, access=access), started).run(sockets=[opened])


def _exported(session: "Session", export: Export) -> str:
    from tagloom.review.export import write_corrections, write_keywords, write_labels

    if not session.answered:
        raise TagloomError(f"{session.folder}: nothing is answered yet. Leave --export out to open the page.")
    if export is Export.labels:
        return f"Labels: {write_labels(session)}"
    if export is Export.corrections:
        return f"Corrections: {write_corrections(session)}"
    outcomes = Counter[str]()
    for result in write_keywords(session):
        outcomes[result.outcome] += 1
        if result.error:
            warn(f"left as it is: {result.error}")
    return (
        f"Photos: {outcomes['written']:,} written, {outcomes['unchanged']:,} unchanged, {outcomes['failed']:,} failed"
    )
