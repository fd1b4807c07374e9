"""Running the variants of a study over seeds, and making the table that goes into docs/results.md.

A study is a list of variants, each a recipe and what it changes. Finished runs are kept and not repeated, so a study
that was stopped goes on where it was.
"""

import json
import shutil
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tagloom.cache_folder import default_cache_folder
from tagloom.recipe import load_recipe, override
from tagloom.recipe.distillation import Distillation
from tagloom.tagger.spec import SPEC_FILE, read_spec
from tagloom.training.distill.run import distill
from tagloom.training.distill.teachers import TEACHERS_FOLDER
from tagloom.training.log import LOG_FILE
from tagloom.training.plan import RUN_FILE, RunPlan
from tagloom.training.run import train


@dataclass(frozen=True)
class Variant:
    """One row of a study.

    Attributes:
        name: What the row is called.
        recipe: A recipe by name.
        settings: What is changed in it.
        seeds: The seeds to run.
        distill: How teachers take part; None for plain training.
        teachers_of: An earlier variant with some of the same teachers, which are copied and not trained again.
    """

    name: str
    recipe: str
    settings: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)
    distill: Distillation | None = None
    teachers_of: str | None = None

    def folder(self, out: Path, seed: int) -> Path:
        """Name the folder of a run."""
        return _folder(out, self.name, seed)


@dataclass(frozen=True)
class Outcome:
    """What a variant came to, over its seeds."""

    variant: Variant
    folders: list[Path]
    figures: list[dict[str, float]]
    seconds: list[float]

    def cell(self, metric: str) -> str:
        """Write a metric as mean and spread (standard deviation), or as the one value."""
        values = [figures[metric] for figures in self.figures]
        if len(values) == 1:
            return f"{values[0]:.2f}"
        return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


def run_study(
    variants: Sequence[Variant], *, data: str, val: str, out: Path, metrics: Sequence[str] = ("mAP", "CF1", "OF1")
) -> list[Outcome]:
    """Run every variant with every seed, print the table in Markdown and write it to `out`."""
    console = Console()
    outcomes = []
    for variant in variants:
        folders, figures, seconds = [], [], []
        for seed in variant.seeds:
            folder = variant.folder(out, seed)
            if not (folder / SPEC_FILE).exists():
                console.rule(f"{variant.name}, seed {seed}")
                _run(variant, seed, data, val, out, console)
            folders.append(folder)
            figures.append(read_spec(folder).metrics["validation"])
            seconds.append(_training_seconds(folder))
        outcomes.append(Outcome(variant, folders, figures, seconds))
        _write(outcomes, out, metrics)
    console.print((out / "table.md").read_text(), markup=False)
    return outcomes


def _run(variant: Variant, seed: int, data: str, val: str, out: Path, console: Console) -> None:
    """Run a variant with a seed, or go on with a run that was stopped."""
    folder = variant.folder(out, seed)
    recipe = override(load_recipe(variant.recipe), [*variant.settings, f"training.seed={seed}"])
    plan = RunPlan(data, val, recipe, distill=variant.distill)
    resume, cache = (folder / RUN_FILE).exists(), default_cache_folder()
    if variant.distill is None:
        train(plan, folder, resume=resume, cache_folder=cache, console=console)
        return
    if variant.teachers_of and not resume:
        for teacher in sorted((_folder(out, variant.teachers_of, seed) / TEACHERS_FOLDER).glob("*-*")):
            if teacher.name.partition("-")[0] in variant.distill.kinds:
                shutil.copytree(teacher, folder / TEACHERS_FOLDER / teacher.name, dirs_exist_ok=True)
    distill(plan, folder, resume=resume, cache_folder=cache, console=console)


def _folder(out: Path, name: str, seed: int) -> Path:
    return out / f"{name.replace(' ', '-').replace('/', '-')}-seed{seed}"


def _training_seconds(folder: Path) -> float:
    """Add up the seconds that the run's log and those of its teachers tell of: epochs, and asking the teachers."""
    lines = [line for log in folder.rglob(LOG_FILE) for line in log.read_text(encoding="utf-8").splitlines()]
    return float(sum(json.loads(line).get("seconds", 0.0) for line in lines))


def _write(outcomes: Sequence[Outcome], out: Path, metrics: Sequence[str]) -> None:
    lines = ["| variant | seeds | " + " | ".join(metrics) + " | seconds of training |"]
    lines.append("| --- " * (len(metrics) + 3) + "|")
    for outcome in outcomes:
        cells = " | ".join(outcome.cell(metric) for metric in metrics)
        lines.append(
            f"| {outcome.variant.name} | {len(outcome.figures)} | {cells} | {statistics.mean(outcome.seconds):.0f} |"
        )
    out.mkdir(parents=True, exist_ok=True)
    (out / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = [
        {
            "variant": outcome.variant.name,
            "settings": outcome.variant.settings,
            "recipe": outcome.variant.recipe,
            "figures": [{metric: row[metric] for metric in metrics} for row in outcome.figures],
            "time": time.time(),
        }
        for outcome in outcomes
    ]
    (out / "results.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
