"""How train and distill end: stopped with a hint, or finished with metrics."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tagloom.terminal import open_console, print_line, warn
from tagloom.training.launched import rank_launched
from tagloom.training.signals import Interrupted

if TYPE_CHECKING:
    from tagloom.api import TrainedTagger


@contextmanager
def told_how_to_resume(verb: str) -> Iterator[None]:
    """Print the command that continues a run, if somebody stops it."""
    try:
        yield
    except Interrupted as error:
        if rank_launched() == 0:
            warn(f"stopped on request. Continue with: tagloom {verb} --resume --out {error.folder}")
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
