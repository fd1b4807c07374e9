"""Running the variants of a study over seeds, and making the table that goes into docs/results.md.

A study is a list of variants, each a recipe and what it changes. Finished runs are kept and not repeated, so a study
that was stopped goes on where it was.
"""

import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tagloom.inference.folder import SPEC_FILE, read_spec
from tagloom.recipe import load_recipe, override
from tagloom.training.cache import default_cache_folder
from tagloom.training.log import LOG_FILE
from tagloom.training.plan import RUN_FILE, RunPlan
from tagloom.training.run import train


@dataclass(frozen=True)
class Variant:
    """One row of a study: a recipe by name, what is changed in it, and the seeds to run."""

    name: str
    recipe: str
    settings: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)


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
            folder = out / f"{variant.name.replace(' ', '-').replace('/', '-')}-seed{seed}"
            if not (folder / SPEC_FILE).exists():
                recipe = override(load_recipe(variant.recipe), [*variant.settings, f"training.seed={seed}"])
                console.rule(f"{variant.name}, seed {seed}")
                train(
                    RunPlan(data, val, recipe),
                    folder,
                    resume=(folder / RUN_FILE).exists(),
                    cache_folder=default_cache_folder(),
                    console=console,
                )
            folders.append(folder)
            figures.append(read_spec(folder).metrics["validation"])
            seconds.append(_training_seconds(folder))
        outcomes.append(Outcome(variant, folders, figures, seconds))
        _write(outcomes, out, metrics)
    console.print((out / "table.md").read_text(), markup=False)
    return outcomes


def _training_seconds(folder: Path) -> float:
    """Add up the seconds of the epochs, as the run's log has them."""
    rows = [json.loads(line) for line in (folder / LOG_FILE).read_text(encoding="utf-8").splitlines()]
    return float(sum(row["seconds"] for row in rows if row["event"] == "epoch"))


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
