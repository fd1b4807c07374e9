"""What every stage of a run needs, in one object."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from tagloom.progress import Progress
from tagloom.training.features.extract import Workers
from tagloom.training.log import RunLog
from tagloom.training.ranks import ALONE, World
from tagloom.training.signals import StopRequest


@dataclass(frozen=True)
class RunContext:
    """The surroundings of a run: where it writes and computes, who can stop it and what it reports to.

    Attributes:
        out: The run's folder.
        device: Where the network computes.
        cache_folder: Where features of frozen backbones and vectors of words are kept.
        stop: Whether somebody asked to stop.
        log: Writes log.jsonl and shows progress; in the first of several processes only.
        world: The processes that train together.
        workers: Opens what reads images and computes features in place of this process; None if it does so itself.
    """

    out: Path
    device: torch.device
    cache_folder: Path
    stop: StopRequest
    log: RunLog
    world: World = ALONE
    workers: Callable[[], AbstractContextManager[Workers | None]] = nullcontext

    def progress(self, what: str) -> Progress:
        """Give the callback that reports how far a piece of work is."""
        return lambda done, total: self.log.work(what, done, total)

    def stoppable_progress(self, what: str) -> Progress:
        """Give a callback that reports, and leaves if somebody asked to stop: for work with nothing to save."""

        def report(done: int, total: int) -> None:
            self.log.work(what, done, total)
            self.stop.leave_if_requested()

        return report
