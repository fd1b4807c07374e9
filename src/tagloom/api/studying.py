"""`tagloom.study`."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from tagloom.api.planning import StrPath
from tagloom.api.study_runs import PlannedRun, carry_out, plan_runs
from tagloom.cache_folder import default_cache_folder
from tagloom.errors import TagloomError
from tagloom.extras import needs_train
from tagloom.files import is_folder
from tagloom.recipe import Recipe, recipe_names
from tagloom.report.study import write_tables
from tagloom.studies.outcomes import Outcome, StudyResult, collect, finished_run, finished_runs
from tagloom.studies.variants import Variant, as_setting, check_names, sweep, variant_of
from tagloom.terminal import open_console, print_line
from tagloom.training.signals import StopRequest

Rows: TypeAlias = "Sequence[StrPath | Recipe | Variant]"


def study(
    rows: Rows,
    data: StrPath | None = None,
    *,
    val: StrPath | None = None,
    out: StrPath | None = None,
    seeds: int | Sequence[int] | None = None,
    settings: Mapping[str, Any] | None = None,
    sweeps: Mapping[str, Sequence[Any]] | None = None,
    metrics: Sequence[str] | None = None,
    against: str | None = None,
    jobs: int = 1,
    device: str = "auto",
    cache: StrPath | None = None,
    data_options: Mapping[str, str] | None = None,
    show_progress: bool = True,
) -> StudyResult:
    """Run recipes over several seeds, and give the mean and spread of every one.

    Runs that are finished are kept, so a study that was stopped continues when it is called again. Another process
    that is called with the same arguments takes over runs that nobody is working at.

    Args:
        rows: Recipes (names, .yaml files or `Recipe`s), `tagloom.studies.variants.Variant`s, and folders of finished
            runs, in any mixture. A recipe with a `distill` section is distilled.
        data: The training table. May be left out if all rows are finished runs.
        val: The validation table. The figures are measured on it; without one, on images held out from training.
        out: The folder of the study: a folder per run, and the table as table.md, table.csv and results.json.
            "runs/study" by default; finished runs alone are written nowhere by default.
        seeds: How many seeds, or which. 3 by default; a `Variant` has its own.
        settings: Changes to all recipes by dotted names.
        sweeps: Values of settings by dotted names: every row is run with each of them, and with each combination. The
            first setting is the horizontal axis of a chart, the others make lines.
        metrics: Metrics to show, the first one in the chart; by default mAP, CF1 and OF1 (or top-1 and mAP).
        against: The horizontal axis of a chart: a setting, "multiply-adds", "parameters" or "seconds"; by default the
            first setting of `sweeps`.
        jobs: How many teachers train at the same time.
        device: "auto", "cpu", "cuda" or "mps".
        cache: Folder for the features of frozen backbones, which all runs share.
        data_options: How to read the tables, as `tagloom.load_table` takes it.
        show_progress: Show progress: a bar on a terminal, plain lines elsewhere.

    Returns:
        The rows with all their runs. It shows itself in a notebook; `tagloom.report.study_chart.draw_study` draws it.

    Raises:
        TagloomError: Saying what is wrong, where, and what to do; `MissingExtraError` if torch is not installed.

    Examples:
        >>> import tagloom
        >>> tagloom.study(["quick-gap", "quick"], "train.csv", val="val.csv", out="runs/heads")  # doctest: +SKIP
        StudyResult(mAP: quick-gap 59.77 ± 0.11, quick 61.58 ± 0.11)
    """
    variants, folders = _sort_rows(rows, seeds, settings, sweeps)
    axis = against or next(iter(sweeps or {}), None)
    finished = finished_runs(folders)
    if not variants:
        result = collect(finished, metrics, axis)
        return result if out is None else write_tables(result, Path(out))
    if data is None:
        raise TagloomError("name the label table to train on: tagloom study quick --data photos/train.csv")
    with needs_train("a study"):
        import tagloom.training.run  # noqa: F401, it brings torch
    target = Path("runs/study" if out is None else out)
    runs = plan_runs(
        variants,
        target,
        data=os.fspath(data),
        val=None if val is None else os.fspath(val),
        data_options=data_options or {},
    )
    console = open_console() if show_progress else None
    options = {
        "device": device,
        "cache_folder": default_cache_folder() if cache is None else Path(cache),
        "console": console,
        "jobs": jobs,
    }
    with StopRequest() as stop:
        for number, run in enumerate(runs, start=1):
            if run.finished:
                continue
            stop.leave_if_requested()
            if console:
                print_line(console, f"{run.variant.name}, seed {run.seed}: run {number} of {len(runs)}, {run.folder}")
            if carry_out(run, **options):
                write_tables(collect([*finished, *_outcomes(runs)], metrics, axis), target)
            elif console:
                print_line(console, f"{run.folder}: another process is at work here; going on with the next run.")
    found = [*finished, *_outcomes(runs)]
    if not found:
        raise TagloomError(f"{target}: no run is finished yet; other processes are at work here.")
    return write_tables(collect(found, metrics, axis), target)


def _sort_rows(
    rows: Rows,
    seeds: int | Sequence[int] | None,
    settings: Mapping[str, Any] | None,
    sweeps: Mapping[str, Sequence[Any]] | None,
) -> tuple[list[Variant], list[Path]]:
    """Tell finished runs from what is to be run, and make the variants of the latter."""
    if isinstance(rows, str | os.PathLike | Recipe | Variant):
        rows = [rows]
    if not rows:
        raise TagloomError("name at least one recipe: tagloom study quick quick-gap --data photos/train.csv")
    folders, variants = [], []
    for row in rows:
        if isinstance(row, Variant):
            variants.append(row)
        elif isinstance(row, Recipe):
            variants.append(variant_of(row))
        elif os.fspath(row) not in recipe_names() and is_folder(Path(row)):
            folders.append(Path(row))
        else:
            variants.append(variant_of(os.fspath(row)))
    chosen = tuple(range(seeds)) if isinstance(seeds, int) else seeds
    changes = [as_setting(name, value) for name, value in (settings or {}).items()]
    variants = [
        replace(
            variant,
            settings=(*variant.settings, *changes),
            seeds=variant.seeds if chosen is None else tuple(chosen),
        )
        for variant in variants
    ]
    variants = sweep(variants, sweeps) if sweeps else variants
    check_names(variants)
    return variants, folders


def _outcomes(runs: Sequence[PlannedRun]) -> list[Outcome]:
    """Read what came out so far: a row for every variant that has a finished run."""
    rows: dict[str, list[PlannedRun]] = {}
    for run in runs:
        if run.finished:
            rows.setdefault(run.variant.name, []).append(run)
    return [
        Outcome(
            name,
            line=done[0].variant.line,
            runs=tuple(finished_run(run.folder) for run in done),
            task=done[0].plan.recipe.task,
            settings=done[0].variant.settings,
            swept=dict(done[0].variant.swept),
        )
        for name, done in rows.items()
    ]
