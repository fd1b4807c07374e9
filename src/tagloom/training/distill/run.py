"""A distillation from plan to student: the teachers of all parts and the baseline first, then the student."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from tagloom.errors import RecipeError, TagloomError
from tagloom.models.network import pick_device
from tagloom.recipe.distillation import Distillation
from tagloom.tagger.spec import RUN_FILE, SPEC_FILE
from tagloom.training.checkpoint import CHECKPOINT_FOLDER
from tagloom.training.context import RunContext
from tagloom.training.distill.asking import ask_teachers
from tagloom.training.distill.board import Board
from tagloom.training.distill.cost import describe_cost
from tagloom.training.distill.local_jobs import JobContext, train_locally
from tagloom.training.distill.ray_jobs import train_on_ray
from tagloom.training.distill.teachers import (
    PARTS_FILE,
    PlannedRun,
    list_baseline,
    list_teachers,
    read_partitions,
    split_labels,
    student_plan,
    write_partitions,
)
from tagloom.training.features.prepare import make_batches
from tagloom.training.features.ray_workers import Engine, workers_of
from tagloom.training.folder import STARTED, check_folder, open_folder
from tagloom.training.launched import is_launched
from tagloom.training.log import RunLog
from tagloom.training.loop import TrainingError
from tagloom.training.network import first_network
from tagloom.training.plan import RunPlan, check_options
from tagloom.training.run import TrainingResult, check_present, run_plan, write_plan
from tagloom.training.signals import StopRequest
from tagloom.training.tables import Tables, load_tables

ENGINES = {"local": train_locally, "ray": train_on_ray}


def distill(
    plan: RunPlan,
    out: Path,
    *,
    resume: bool = False,
    device: str = "auto",
    cache_folder: Path,
    jobs: int = 1,
    engine: Engine = "local",
    console: Console | None = None,
    tensorboard: bool = False,
) -> TrainingResult:
    """Train the teachers of a plan, then the student, whose folder is `out`.

    Everything is saved as soon as it exists: `out/parts.json` holds the partitions of the labels, and each
    `out/teachers/<name>` is the tagger folder of a teacher; `out/baseline` is that of the student without teachers, if
    it is wanted. Stopped at any point, it continues with `resume`; whatever is finished is not trained again.

    Args:
        plan: Data and recipe, and in `plan.distill` how teachers take part and how long the student trains.
        out: The tagger folder to write.
        resume: Continue where the run in `out` stopped.
        device: "auto", "cpu", "cuda" or "mps".
        cache_folder: Where features of frozen backbones are kept; teachers and student share them.
        jobs: How many teachers train side by side, the baseline counted among them.
        engine: "local", or "ray" for a Ray cluster.
        console: Where to show progress; None for silence.
        tensorboard: Also write TensorBoard events of the student.

    Returns:
        The student's classes and metrics.
    """
    settings = _check(plan, jobs)
    started = (PARTS_FILE, *STARTED)
    check_folder(out, resume=resume, started=started)
    loss = check_options(plan.recipe)
    if resume:
        RunPlan.read(out).check_same(plan)
        check_present(plan, out)
    tables = load_tables(plan)
    partitions = read_partitions(out, tables.table)
    if partitions is None:
        partitions = split_labels(tables.table, settings, plan.recipe.training.seed)
    teachers, baseline = list_teachers(plan, tables, partitions, out), list_baseline(plan, out)
    before = [*baseline, *teachers]  # the longest first, so that jobs side by side end at about the same time
    unfinished = [run for run in before if not _is_finished(run)]
    chosen_device = pick_device(device)
    with open_folder(out, resume=resume, started=started), StopRequest() as stop:
        write_plan(plan, tables, out, resume=resume)
        if unfinished:
            with RunLog(out, console) as log:
                log.say(describe_cost(plan, tables, before))
                workers = workers_of(engine, device, stop)
                looking = RunContext(out, chosen_device, cache_folder, stop, log, workers=workers)
                _look_once(plan, tables, unfinished, looking)
        # Written only now: whatever was refused so far can be fixed and started again in the same folder.
        write_partitions(out, tables.table, partitions)
        if unfinished:
            with Board(before, console) as board:
                job_context = JobContext(jobs, device, cache_folder, stop, board.tell)
                _train_all(unfinished, len(before), engine, job_context, out)
        stop.leave_if_requested()
        with RunLog(out, console, tensorboard) as log:
            context = RunContext(out, chosen_device, cache_folder, stop, log)
            alone = baseline[0].folder if baseline else None
            ask = partial(ask_teachers, teachers, alone, settings)
            try:
                return run_plan(student_plan(plan), tables, loss, context, ask)
            except TrainingError as error:
                raise TrainingError(f"{error} With teachers, a lower --weight is the first thing to try.") from error


def _check(plan: RunPlan, jobs: int) -> Distillation:
    """Refuse what cannot be distilled before any work."""
    if is_launched():
        raise TagloomError(
            "a distillation runs in one process, which trains its teachers as parallel jobs: leave out torchrun, and "
            "choose how many with --jobs."
        )
    if plan.distill is None:
        raise TagloomError("the plan names no teachers: give RunPlan a Distillation.")
    if plan.recipe.activation != "sigmoid" or plan.recipe.task != "multi":
        raise RecipeError(
            "teachers can be merged only where every label has a score of its own: choose task 'multi' and a loss "
            "other than 'cross-entropy'."
        )
    if plan.recipe.words.augmented:
        raise RecipeError(
            "teachers score the words of their own classes only: set words.query_noise, words.random_queries and "
            "words.labels_per_step to 0."
        )
    if jobs < 1:
        raise TagloomError(f"--jobs {jobs}: at least one teacher at a time must train.")
    return plan.distill


def _is_finished(run: PlannedRun) -> bool:
    """Say whether a run is trained already; refuse a folder that holds another run, and do not overwrite it."""
    if (run.folder / RUN_FILE).exists():
        try:
            RunPlan.read(run.folder).check_same(run.plan)
        except TagloomError as error:
            raise TagloomError(
                f"{run.folder}: is not the {run.title} that this run wants ({error}) Delete this folder to train it "
                "again."
            ) from error
    return (run.folder / SPEC_FILE).exists()


def _look_once(plan: RunPlan, tables: Tables, unfinished: list[PlannedRun], context: RunContext) -> None:
    """Read all images before any teacher starts: refuse too many broken ones, and extract the features of all."""
    if (context.out / CHECKPOINT_FOLDER).exists():
        names = ", ".join(run.title for run in unfinished)
        context.log.say(f"[yellow]the student has started, but {names} are missing: training them[/]")
    # Each teacher learns from other images, and all that any of them learns from must be cached in every view.
    everything = tables._replace(held_out=np.zeros_like(tables.held_out))
    recipe = replace(
        plan.recipe,
        data=replace(plan.recipe.data, holdout=0.0),
        training=replace(plan.recipe.training, standardise=False),
    )
    make_batches(first_network(plan, tables.table.classes, context), everything, recipe, context)


def _train_all(unfinished: list[PlannedRun], count: int, engine: Engine, context: JobContext, out: Path) -> None:
    """Train the runs that are not finished, each in its folder; say which of them failed, out of `count`."""
    for run in unfinished:
        run.folder.mkdir(parents=True, exist_ok=True)
        run.plan.write(run.folder)
    errors = ENGINES[engine](unfinished, context)
    if errors:
        listed = "\n".join(f"  {name}: {error}" for name, error in errors.items())
        raise TagloomError(
            f"{len(errors)} of {count} runs before the student failed:\n{listed}\nThe others are finished and kept. "
            f"Fix the cause and continue with: tagloom distill --resume --out {out}"
        )
