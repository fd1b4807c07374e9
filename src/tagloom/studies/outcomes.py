"""What came out of the runs of a study: figures of every run, means and spreads of every row, and what a row cost."""

import json
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tagloom.errors import TagloomError, unknown_name
from tagloom.extras import needs_train
from tagloom.notebook import html_table
from tagloom.recipe.names import SHOWN_METRICS
from tagloom.studies.variants import as_word
from tagloom.tagger.spec import TaggerSpec, read_spec
from tagloom.training.log import LOG_FILE


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        folder: Its tagger folder.
        metrics: Its metrics on validation data, or else on the images held out.
        seconds: Seconds of training, those of its teachers included.
        teachers: The mAP of its merged teachers on the same images, by kind; empty without teachers.
    """

    folder: Path
    metrics: dict[str, Any]
    seconds: float
    teachers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a row came to, over its runs.

    Attributes:
        name: The row.
        line: The line of a chart that it is a point of.
        runs: Its finished runs, one per seed.
        task: "multi" or "single".
        settings: What was changed in the recipe.
        swept: The values that a sweep gave to settings.
        place: Where it is on the chart's horizontal axis: a number or a word. None if that does not apply to it.
    """

    name: str
    line: str
    runs: tuple[Run, ...]
    task: str = "multi"
    settings: tuple[str, ...] = ()
    swept: dict[str, Any] = field(default_factory=dict)
    place: float | str | None = None

    def values(self, metric: str) -> list[float]:
        """Give a metric of every run."""
        return [float(run.metrics[metric]) for run in self.runs]

    def mean(self, metric: str) -> float:
        """Average a metric over the runs."""
        return statistics.mean(self.values(metric))

    def spread(self, metric: str) -> float | None:
        """Give the standard deviation of a metric over the runs; None for one run."""
        return statistics.stdev(self.values(metric)) if len(self.runs) > 1 else None

    @property
    def seconds(self) -> float:
        """The mean seconds of training."""
        return statistics.mean(run.seconds for run in self.runs)


@dataclass(frozen=True, repr=False)
class StudyResult:
    """The rows of a study. In a notebook it shows its table.

    Attributes:
        outcomes: The rows that have a finished run.
        metrics: The metrics to show, the most telling first.
        against: What the horizontal axis of a chart has: a setting or one of `AXES`; None for no such axis.
    """

    outcomes: tuple[Outcome, ...]
    metrics: tuple[str, ...]
    against: str | None = None

    @property
    def folders(self) -> dict[str, list[Path]]:
        """The tagger folders of every row."""
        return {outcome.name: [run.folder for run in outcome.runs] for outcome in self.outcomes}

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Give the heading and the cells of the table for people: means and spreads."""
        cost = [AXES[self.against]] if self.against in AXES and self.against != "seconds" else []
        taught = ["teachers, mAP"] if any(run.teachers for outcome in self.outcomes for run in outcome.runs) else []
        heading = ["variant", "seeds", *self.metrics, *taught, *cost, AXES["seconds"]]
        rows = [
            [
                outcome.name,
                str(len(outcome.runs)),
                *(_spread(outcome.values(metric)) for metric in self.metrics),
                *(_teachers(outcome) for _ in taught),
                *(_figure(outcome.place) for _ in cost),
                f"{outcome.seconds:.0f}",
            ]
            for outcome in self.outcomes
        ]
        return heading, rows

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain data, the metrics of every run included."""
        return {
            "metrics": self.metrics,
            "against": self.against,
            "rows": [
                {
                    "variant": outcome.name,
                    "line": outcome.line,
                    "settings": outcome.settings,
                    "swept": outcome.swept,
                    "place": outcome.place,
                    **{
                        metric: {"mean": outcome.mean(metric), "spread": outcome.spread(metric)}
                        for metric in self.metrics
                    },
                    "runs": [
                        {
                            "folder": str(run.folder),
                            "seconds": run.seconds,
                            "teachers": run.teachers,
                            **{metric: run.metrics[metric] for metric in self.metrics},
                        }
                        for run in outcome.runs
                    ],
                }
                for outcome in self.outcomes
            ],
        }

    def __repr__(self) -> str:
        first = self.metrics[0] if self.metrics else ""
        rows = ", ".join(f"{outcome.name} {_spread(outcome.values(first))}" for outcome in self.outcomes)
        return f"StudyResult({first}: {rows})"

    def _repr_html_(self) -> str:
        return html_table("Mean and standard deviation over seeds", *self.table())


def collect(
    outcomes: Sequence[Outcome], metrics: Sequence[str] | None = None, against: str | None = None
) -> StudyResult:
    """Put rows together, and place each on the horizontal axis.

    Args:
        outcomes: Rows that have runs.
        metrics: Metrics to show; by default those that are usual for the task.
        against: A setting by its dotted name, or one of `AXES`.
    """
    for outcome in outcomes:
        usual = {name for run in outcome.runs for name, value in run.metrics.items() if isinstance(value, int | float)}
        for metric in metrics or ():
            if metric not in usual:
                raise TagloomError(f"{outcome.name}: " + unknown_name("metric", metric, sorted(usual)))
    single = all(outcome.task == "single" for outcome in outcomes)
    chosen = tuple(metrics or SHOWN_METRICS["single" if single else "multi"])
    if against is None:
        return StudyResult(tuple(outcomes), chosen)
    placed = tuple(replace(outcome, place=_place(outcome, against)) for outcome in outcomes)
    if placed and all(outcome.place is None for outcome in placed):
        settings = sorted({name for outcome in placed for name in outcome.swept})
        raise TagloomError(
            f"--against {against}: no run has such a setting. Name a setting like preprocess.size, or one of "
            f"{', '.join([*AXES, *settings])}."
        )
    return StudyResult(placed, chosen, against)


def finished_run(folder: Path) -> Run:
    """Read a finished run."""
    return _run_of(read_spec(folder), folder)


def finished_runs(folders: Iterable[Path]) -> list[Outcome]:
    """Read finished runs, wherever they came from. Folders that differ only in `-seed…` make one row.

    Runs of the same recipe are points of one line.
    """
    rows: dict[str, list[tuple[TaggerSpec, Run]]] = {}
    for folder in folders:
        spec = read_spec(folder)
        name = re.sub(r"-seed\d+$", "", folder.resolve().name)
        rows.setdefault(name, []).append((spec, _run_of(spec, folder)))
    return [
        Outcome(
            name,
            line=str(found[0][0].recipe.get("name", name)),
            runs=tuple(run for _, run in found),
            task=found[0][0].task,
        )
        for name, found in rows.items()
    ]


def _run_of(spec: TaggerSpec, folder: Path) -> Run:
    part = next((part for part in ("validation", "held_aside") if isinstance(spec.metrics.get(part), dict)), None)
    if part is None:
        raise TagloomError(f"{folder}: this tagger was never measured. Train with --val, or with data.holdout above 0.")
    measured = spec.metrics.get("teachers")
    teachers = {
        str(kind): float(level[part])
        for kind, level in (measured.items() if isinstance(measured, dict) else ())
        if isinstance(level, dict) and isinstance(level.get(part), int | float)
    }
    return Run(folder, spec.metrics[part], _training_seconds(folder), teachers)


def _training_seconds(folder: Path) -> float:
    """Add up the seconds that the run's log and those of its teachers tell of: epochs, and asking the teachers."""
    seconds = 0.0
    for log in folder.rglob(LOG_FILE):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, TypeError, AttributeError):  # a line that is not ours
                seconds += float(json.loads(line).get("seconds", 0.0))
    return seconds


def _spread(values: Sequence[float]) -> str:
    """Write values as mean and standard deviation, or the only one as it is.

    >>> _spread([61.0, 62.0]), _spread([61.5])
    ('61.50 ± 0.71', '61.50')
    """
    return f"{statistics.mean(values):.2f}" + (f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else "")


def _teachers(outcome: Outcome) -> str:
    """Write how good the merged teachers of each kind were."""
    kinds = [kind for kind in outcome.runs[0].teachers if all(kind in run.teachers for run in outcome.runs)]
    return ", ".join(f"{kind} {_spread([run.teachers[kind] for run in outcome.runs])}" for kind in kinds) or "–"


def _figure(value: float | str | None) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value or "–")


def _multiply_adds(outcome: Outcome) -> float:
    """Count the multiply-adds of the whole tagger for one picture, in thousands of millions."""
    with needs_train("counting multiply-adds"):
        from tagloom.models.cost import tagger_cost
    spec = read_spec(outcome.runs[0].folder)
    whole, _ = tagger_cost(
        spec.backbone, spec.head, classes=len(spec.classes), size=spec.preprocess.size, **spec.head_options
    )
    return whole.multiply_adds / 1e9


def _parameters(outcome: Outcome) -> float | None:
    count = read_spec(outcome.runs[0].folder).data.get("parameters")
    return count / 1e6 if isinstance(count, int) else None


AXES = {"multiply-adds": "multiply-adds, G", "parameters": "parameters, M", "seconds": "seconds of training"}
"""What else than a setting a chart can be drawn against, and how its axis is labelled."""

_COUNTED: dict[str, Callable[[Outcome], float | None]] = {
    "multiply-adds": _multiply_adds,
    "parameters": _parameters,
    "seconds": lambda outcome: outcome.seconds,
}


def _place(outcome: Outcome, against: str) -> float | str | None:
    """Find where a row is on the horizontal axis."""
    if against in _COUNTED:
        return _COUNTED[against](outcome)
    if against in outcome.swept:
        value = outcome.swept[against]
    else:
        value = read_spec(outcome.runs[0].folder).recipe
        for part in against.split("."):
            value = value.get(part) if isinstance(value, dict) else None
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    return as_word(value)
