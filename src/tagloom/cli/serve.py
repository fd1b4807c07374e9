"""`tagloom serve`."""

from pathlib import Path
from typing import Annotated

import typer

from tagloom.cli.arguments import Device, Words
from tagloom.extras import needs_serve
from tagloom.terminal import note, open_console, print_line


def serve(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN...]",
            help="Tagger folders, tagloom:any or hf-hub:owner/name; nothing for the ready tagger. Several are shown "
            "side by side.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Listen on this address. Another than loopback needs --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Listen on this port; 0 for any that is free.", min=0, max=65535)] = 8700,
    token: Annotated[
        str | None,
        typer.Option(help="Answer only requests that carry this token.", envvar="TAGLOOM_TOKEN", show_default=False),
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option(help="Let scripts of this page call the API: https://name. Repeatable.")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    max_megabytes: Annotated[int, typer.Option(help="Refuse larger requests.", min=1, max=1024)] = 32,
    max_megapixels: Annotated[int, typer.Option(help="Refuse larger pictures.", min=1, max=178)] = 89,
    queue: Annotated[int, typer.Option(help="Let this many pictures wait for each tagger.", min=1, max=100_000)] = 256,
    deadline: Annotated[float, typer.Option(help="Answer within this many seconds.", min=0.1, max=3600)] = 30,
    label_studio_files: Annotated[
        Path | None,
        typer.Option(help="Read pictures of Label Studio's tasks from this folder.", exists=True, file_okay=False),
    ] = None,
    words: Words = None,
    device: Device = "auto",
) -> None:
    """Open a page to try taggers on, and answer requests.

    Example: tagloom serve runs/first runs/student

    The page is for this machine only, at http://127.0.0.1:8700. Drop a picture on it. The same server answers
    POST /v1/predict and others: see docs/serving.md. Ctrl-C stops it; requests that are being answered are finished.
    """
    with needs_serve("serving"):
        from tagloom.serve.app import create_app
        from tagloom.serve.run import listen, make_server, open_page, page_address
    from tagloom.predict.tagger import load
    from tagloom.serve.guard import Access
    from tagloom.serve.label_studio import TaskFiles
    from tagloom.serve.limits import Limits
    from tagloom.serve.taggers import name_taggers

    access = Access(host, token, tuple(cors or ()))
    limits = Limits(
        body_bytes=max_megabytes * 2**20,
        pixels=max_megapixels * 10**6,
        waiting=queue,
        deadline_seconds=deadline,
    )
    opened = listen(host, port)
    folders: list[str | None] = [*dict.fromkeys(runs or ())] or [None]
    names = name_taggers(folder or "ready" for folder in folders)
    taggers = {name: load(folder, device=device, words=words) for name, folder in zip(names, folders, strict=True)}
    if not runs:
        note("no tagger is named: serving the ready one, which comes with Tagloom")
    console = open_console()
    address = page_address(opened, token)

    def started() -> None:
        print_line(console, f"Tagging with {', '.join(names)} at {address}")
        note("Ctrl-C stops it")
        if open_browser:
            open_page(address)

    files = TaskFiles(label_studio_files, limits.body_bytes)
    app = create_app(taggers, access=access, limits=limits, label_studio_files=files)
    make_server(app, started).run(sockets=[opened])
