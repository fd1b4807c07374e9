"""What a run reports: progress on the console, a JSON-lines log, and TensorBoard on request."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape

import tagloom
from tagloom.errors import MissingExtraError
from tagloom.progress import ProgressDisplay, progress_line
from tagloom.wording import printable_lines

LOG_FILE = "log.jsonl"
# Not printed after an epoch. F1 depends on thresholds, which are chosen after the last epoch.
_UNPRINTED = ("epoch", "learning_rate", "CF1", "OF1")


class RunLog:
    """Writes `log.jsonl` and shows progress. Use it as a context manager.

    Args:
        folder: The run's folder; None writes nothing, as all but the first of several processes do.
        console: Where to show progress; None for silence.
        tensorboard: Also write TensorBoard events.
        clock: Gives the time in seconds for progress; tests pass their own.
    """

    def __init__(
        self,
        folder: Path | None,
        console: Console | None = None,
        tensorboard: bool = False,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = None if folder is None else folder / LOG_FILE
        self._console = console
        self._display = ProgressDisplay(console, clock=clock)
        self._announced: set[str] = set()
        self._steps = self._steps_done = 0
        self._board = _tensorboard_writer(folder) if tensorboard and folder is not None else None
        self._complained = False

    def __enter__(self) -> "RunLog":
        self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._display.__exit__(kind, error, trace)
        if self._board:
            with suppress(OSError):
                self._board.close()

    def start(self, **fields: Any) -> None:
        """Log that a run starts, or continues, and on which machine."""
        here = {"host": socket.gethostname(), "process": os.getpid(), "version": tagloom.__version__}
        self.event("start", **fields, **here)

    def event(self, kind: str, **fields: Any) -> None:
        """Append one line to the log. A run does not stop because its log cannot be written; it says so once."""
        if self._path is None:
            return
        line = json.dumps({"event": kind, "time": round(time.time(), 3), **fields})  # ASCII: safe to print
        size = self._path.stat().st_size if self._path.exists() else 0
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            with suppress(OSError):
                os.truncate(self._path, size)  # half a line would spoil the next one
            self._complain(f"{self._path}: cannot be written ({error.strerror}); events are missing from it.")

    def say(self, text: str) -> None:
        """Show a line above the progress bars."""
        with self._showing() as console:
            if console is not None:
                console.print(printable_lines(text), markup=True)

    def work(self, what: str, done: int, total: int, note: str = "") -> None:
        """Show how far a piece of work is. Without a terminal, its first report is a line of its own."""
        with self._showing() as console:
            if what not in self._announced and console is not None and not console.is_terminal:
                console.print(progress_line(what, done, total, seconds=0.0), markup=False, soft_wrap=True)
            self._announced.add(what)
            self._display.update(what, done, total, note=note)

    def epoch_starts(self, epoch: int, epochs: int, steps: int, done: int) -> None:
        """Move the training's progress to an epoch of `steps` steps, of which `done` are done."""
        self._steps, self._steps_done = epochs * steps, epoch * steps + done
        self.work("training steps", self._steps_done, self._steps)

    def step(self, epoch: int, terms: Mapping[str, float]) -> None:
        """Move the training's progress by one step, and show the terms of its loss."""
        self._steps_done += 1
        shown = "  ".join(f"{name} {value:.4g}" for name, value in terms.items())
        self.work("training steps", self._steps_done, self._steps, note=f"epoch {epoch + 1}  {shown}")

    def epoch_ends(self, row: dict[str, float]) -> None:
        """Log the terms and metrics of an epoch."""
        self.event("epoch", **row)
        shown = "  ".join(f"{name} {value:.4g}" for name, value in row.items() if name not in _UNPRINTED)
        self.say(f"[dim]epoch {int(row['epoch']):>3}[/]  {shown}")
        if self._board:
            try:
                for name, value in row.items():
                    self._board.add_scalar(name, value, int(row["epoch"]))
            except OSError as error:
                self._board = None
                self._complain(f"TensorBoard events cannot be written ({error.strerror}).")

    @contextmanager
    def _showing(self) -> Iterator[Console | None]:
        """Give the console. If it is gone, its window closed or its pipe broken, the run continues in silence."""
        try:
            yield self._console
        except OSError:
            with suppress(OSError):
                self._display.__exit__(None, None, None)
            self._console, self._display = None, ProgressDisplay(None)

    def _complain(self, text: str) -> None:
        if not self._complained:
            self._complained = True
            self.say(f"[yellow]{escape(text)} The run continues.[/]")


def _tensorboard_writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError("--tensorboard", "tensorboard") from error
    return SummaryWriter(str(folder / "tensorboard"))
