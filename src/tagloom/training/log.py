"""What a run tells: progress on the terminal, a JSON-lines log, and TensorBoard when asked."""

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console

from tagloom.errors import MissingExtraError
from tagloom.progress import ProgressDisplay

LOG_FILE = "log.jsonl"


class RunLog:
    """Writes `log.jsonl` and shows progress. Use it as a context manager.

    Args:
        folder: The run's folder.
        console: Where progress is shown; None for silence.
        tensorboard: Also write TensorBoard events.
    """

    def __init__(self, folder: Path, console: Console | None = None, tensorboard: bool = False) -> None:
        self._path = folder / LOG_FILE
        self._console = console
        self._display = ProgressDisplay(console)
        self._steps = self._steps_done = 0
        self._board = _tensorboard_writer(folder) if tensorboard else None

    def __enter__(self) -> "RunLog":
        self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._display.__exit__(kind, error, trace)
        if self._board:
            self._board.close()

    def event(self, kind: str, **fields: Any) -> None:
        """Append one line to the log."""
        line = json.dumps({"event": kind, "time": round(time.time(), 3), **fields}, ensure_ascii=False)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def say(self, text: str) -> None:
        """Show a line above the progress bars."""
        if self._console is not None:
            self._console.print(text)

    def work(self, description: str, done: int, total: int) -> None:
        """Show how far some piece of work is."""
        self._display.update(description, done, total)

    def epoch_starts(self, epoch: int, epochs: int, steps: int, done: int) -> None:
        """Move the bar of the training to the epoch that begins."""
        self._steps, self._steps_done = epochs * steps, epoch * steps + done
        self._display.update("training", self._steps_done, self._steps)

    def step(self, epoch: int, loss: float) -> None:
        """Move the bar by one step."""
        self._steps_done += 1
        self._display.update("training", self._steps_done, self._steps, note=f"epoch {epoch + 1}  loss {loss:.4g}")

    def epoch_ends(self, row: dict[str, float]) -> None:
        """Log an epoch's figures."""
        self.event("epoch", **row)
        # F1 is left out here: it needs thresholds, and those are chosen after the last epoch.
        shown = "  ".join(f"{name} {row[name]:.4g}" for name in ("loss", "top1", "mAP", "seconds") if name in row)
        self.say(f"[dim]epoch {int(row['epoch']):>3}[/]  {shown}")
        if self._board:
            for name, value in row.items():
                self._board.add_scalar(name, value, int(row["epoch"]))


def _tensorboard_writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError("--tensorboard", "tensorboard") from error
    return SummaryWriter(str(folder / "tensorboard"))
