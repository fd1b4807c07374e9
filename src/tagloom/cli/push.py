"""`tagloom push`."""

from typing import Annotated

import typer

from tagloom.cli.arguments import Run
from tagloom.terminal import open_console, print_line


def push(
    run: Run,
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="The repository on the hub; a new one is made.")],
    public: Annotated[
        bool, typer.Option("--public", help="Let everybody see a new repository (default: only its owner).")
    ] = False,
    weights: Annotated[
        bool, typer.Option("--weights", help="Send model.safetensors as well, which running it in torch needs.")
    ] = False,
) -> None:
    """Send a tagger with its model card to the Hugging Face hub, from where hf-hub:owner/name loads it.

    Example: tagloom push runs/first me/holiday-tagger

    Only the files of a tagger are sent: tagger.json, model.onnx, the model card, and word vectors if it has them.
    Log in first: hf auth login
    """
    from tagloom.extras import needs_train
    from tagloom.predict.tagger import find_folder

    with needs_train("sending a tagger to the hub"):
        from tagloom.export.publish import push_tagger

    sent = push_tagger(find_folder(run), name, public=public, weights=weights)
    print_line(open_console(), f"Sent. Use it with: tagloom predict {sent} photo.jpg")
