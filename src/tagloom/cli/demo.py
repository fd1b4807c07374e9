"""`tagloom demo`."""

from pathlib import Path
from typing import Annotated

import typer

from tagloom.extras import needs_train


def demo(
    out: Annotated[Path, typer.Option(help="Write all files to this folder.")] = Path("demo"),
    images: Annotated[int, typer.Option(help="Number of training images to draw.", min=40)] = 1600,
) -> None:
    """See it work: tag photographs with the ready tagger, then train one on drawn images and look at its tags."""
    with needs_train("the demonstration"):
        import torch  # noqa: F401 - imported here so that the message comes before any work
    from tagloom.demo import run_demo
    from tagloom.terminal import open_console

    run_demo(out, images=images, console=open_console())
