"""What a run tells: progress on the terminal, a JSON-lines log, and TensorBoard when asked."""

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tagloom.errors import MissingExtraError

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
        self._bars = Progress(
            TextColumn("{task.description:<28}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=console is None or not console.is_terminal,
        )
        self._bar: Any = None
        self._board = _tensorboard_writer(folder) if tensorboard else None

    def __enter__(self) -> "RunLog":
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
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
        if self._bar is None or self._bars.tasks[-1].description != description:
            self._bar = self._bars.add_task(description, total=total, note="")
        self._bars.update(self._bar, completed=done, total=total)

    def epoch_starts(self, epoch: int, epochs: int, steps: int, done: int) -> None:
        """Open the bar of the training, or move it to the epoch that begins."""
        if epoch == 0 or self._bar is None or self._bars.tasks[-1].description != "training":
            self._bar = self._bars.add_task("training", total=epochs * steps, note="")
        self._bars.update(self._bar, completed=epoch * steps + done, total=epochs * steps)

    def step(self, epoch: int, loss: float) -> None:
        """Move the bar by one step."""
        self._bars.update(self._bar, advance=1, note=f"epoch {epoch + 1}  loss {loss:.4g}")

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
