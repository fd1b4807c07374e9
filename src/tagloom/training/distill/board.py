"""How far teachers and baseline are: read from their folders, whoever trains them; a live table, or lines."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tagloom.tagger.spec import SPEC_FILE
from tagloom.training.distill.teachers import PlannedRun
from tagloom.training.log import LOG_FILE


@dataclass(frozen=True)
class Standing:
    """How far one run is.

    Attributes:
        state: "waiting", "training", "finished" or "failed".
        epoch: Epochs done.
        mean_precision: mAP after the last of them, in percent; None where it is not measured.
    """

    state: str
    epoch: int = 0
    mean_precision: float | None = None

    def text(self, epochs: int) -> str:
        """Say it in a few words."""
        words = f"epoch {self.epoch}/{epochs}" if self.state == "training" else self.state
        return words if self.mean_precision is None else f"{words}, mAP {self.mean_precision:.1f}"


def standing_of(run: PlannedRun) -> Standing:
    """Read from a run's folder how far it is."""
    try:
        lines = [json.loads(line) for line in (run.folder / LOG_FILE).read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):  # not started, or in the middle of a line
        lines = []
    epochs = [line for line in lines if line.get("event") == "epoch"]
    epoch = int(epochs[-1]["epoch"]) if epochs else 0
    precision = epochs[-1].get("mAP") if epochs else None
    if (run.folder / SPEC_FILE).exists():
        return Standing("finished", epoch, precision)
    return Standing("training" if lines else "waiting", epoch, precision)


class Board:
    """Shows the standing of all runs while it is entered.

    Args:
        runs: What to show.
        console: Where to show it: a terminal gets one live table, anything else a line per change. None for silence.
    """

    def __init__(self, runs: Sequence[PlannedRun], console: Console | None) -> None:
        self.runs = runs
        self.failed: set[str] = set()
        self._console = console
        self._told: dict[str, str] = {}
        moving = console is not None and console.is_terminal
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=2) if moving else None

    def __enter__(self) -> "Board":
        if self._live:
            self._live.start()
        self.tell({})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def tell(self, errors: Mapping[str, str]) -> None:
        """Read the folders again, and show what is new. `errors` holds what went wrong, by run."""
        self.failed = set(errors)
        if self._console is None or self._live:
            return
        for run in self.runs:
            text = self._standing(run).text(run.plan.recipe.training.epochs)
            if self._told.get(run.name, "waiting") != text:
                self._console.print(f"{run.title}: {text}", markup=False)
                self._told[run.name] = text

    def _standing(self, run: PlannedRun) -> Standing:
        found = standing_of(run)
        return Standing("failed", found.epoch) if run.name in self.failed else found

    def _table(self) -> Table:
        table = Table("", "labels", "", title="before the student", title_justify="left")
        colours = {"finished": "green", "failed": "red", "training": "bold", "waiting": "dim"}
        for run in self.runs:
            found = self._standing(run)
            said = Text(found.text(run.plan.recipe.training.epochs), style=colours[found.state])
            table.add_row(run.title, "all" if run.plan.classes is None else str(len(run.plan.classes)), said)
        return table
