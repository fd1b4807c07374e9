"""`--processes N`: the same command, in several processes that share its work."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tagloom.training.launched import is_launched

if TYPE_CHECKING:
    from tagloom.training.ranks import World

SHARED_VERBS = ("train", "predict")

Processes = Annotated[
    int,
    typer.Option(
        min=1,
        help="Share the work among this many processes on this machine, one per GPU if there are GPUs. torchrun starts "
        "them on many machines.",
    ),
]


class ManyProcesses(Exception):  # noqa: N818  it is not an error
    """The command asks to be run in `count` processes."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


def share_work(processes: int) -> None:
    """Ask for several processes, unless this is one of them."""
    if processes > 1 and not is_launched():
        raise ManyProcesses(processes)


@contextmanager
def joined(device: str) -> "Iterator[World | None]":
    """Give the processes that share this command's work; None if it runs in one, which then needs no torch."""
    if not is_launched():
        yield None
        return
    from tagloom.training.ranks import join_world

    with join_world(device) as world:
        yield world
