"""How train and distill end: stopped with a hint, or finished with metrics."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tagloom.terminal import open_console, print_line, warn
from tagloom.training.launched import rank_launched
from tagloom.training.signals import Interrupted

if TYPE_CHECKING:
    from tagloom.api import TrainedTagger


@contextmanager
def told_how_to_resume(verb: str, engine: str, cache: Path | None) -> Iterator[None]:
    """Print the command that continues a run, if somebody stops it, with what a run does not remember."""
    try:
        yield
    except Interrupted as error:
        if rank_launched() == 0:
            again = f" --engine {engine}" if engine != "local" else ""
            again += f" --cache {shlex.quote(str(cache))}" if cache is not None else ""
            warn(f"stopped on request. Continue with: tagloom {verb} --resume --out {error.folder}{again}")
        raise


def show_trained(result: "TrainedTagger", what: str) -> None:
    """Print the metrics of a finished training, and what to do with its folder; once, if several processes trained."""
    if rank_launched():
        return
    from rich.text import Text

    from tagloom.report.metrics import render_metrics

    console = open_console()
    if result.metrics:
        console.print(Text(f"\n{result.scored_on.capitalize()}", "bold"))
        render_metrics(result.headline_metrics, result.classes, console)
    console.print()
    print_line(console, f"{what} is in {result.folder}. Try: tagloom predict {result.folder} photo.jpg")
