"""`tagloom scenes`."""

from pathlib import Path
from typing import Annotated

import typer

from tagloom.progress import show_progress
from tagloom.terminal import open_console, print_line


def scenes(
    folder: Annotated[Path, typer.Argument(help="The folder to write.")],
    images: Annotated[
        int, typer.Option(help="Number of training images; every other split gets a quarter of that.", min=8)
    ] = 1200,
    seed: Annotated[int, typer.Option(help="Another seed gives other images.")] = 0,
) -> None:
    """Draw a small labelled data set to try everything on; nothing is downloaded.

    Example: tagloom scenes scenes
    """
    from tagloom.data.scenes import write_scenes

    console = open_console()
    part = max(images // 4, 2)
    with show_progress(console, "drawing images") as progress:
        write_scenes(folder, train=images, val=part, test=part, seed=seed, progress=progress)
    print_line(console, f"Written to {folder}. Try: tagloom check {folder}/train.csv")
