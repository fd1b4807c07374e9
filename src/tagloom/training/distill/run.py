"""A distillation from table to student: the teachers of all parts, then one student that learns from all of them."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import torch
from rich.console import Console

from tagloom.errors import RecipeError, TaggerError, TagloomError
from tagloom.models.network import load_network, pick_device
from tagloom.recipe.distillation import Distillation
from tagloom.tagger.spec import RUN_FILE, SPEC_FILE, read_spec
from tagloom.training.checkpoint import CHECKPOINT_FOLDER
from tagloom.training.distill.board import Board
from tagloom.training.distill.local_jobs import train_locally
from tagloom.training.distill.ray_jobs import train_on_ray
from tagloom.training.distill.teachers import PARTS_FILE, Teacher, list_teachers, part_labels, read_parts, write_parts
from tagloom.training.features.batches import FeatureBatches
from tagloom.training.features.prepare import cached_parts, image_parts
from tagloom.training.log import RunLog
from tagloom.training.plan import RunPlan, check_options
from tagloom.training.run import Materials, TrainingResult, first_network, train
from tagloom.training.signals import StopRequest
from tagloom.training.tables import Tables, load_tables
from tagloom.training.tasks.distillation import (
    DistillTask,
    MergedTeachers,
    TeacherGroup,
    TeacherLogits,
    merge_order,
    online,
    part_matrix,
    remember,
)
from tagloom.training.tasks.supervised import Forward

Engine: TypeAlias = Literal["local", "ray"]
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

    Everything is kept as it comes about: `out/parts.json` says how the labels are parted, `out/teachers/<name>` is a
    tagger folder per teacher. Stopped at any point, it goes on with `resume`; no finished teacher is trained again.

    Args:
        plan: Data and recipe of the student, and in `plan.distill` how teachers take part.
        out: The tagger folder to make.
        resume: Go on where the run in `out` stopped.
        device: "auto", "cpu", "cuda", "mps".
        cache_folder: Where features of frozen backbones are kept; teachers and student share them.
        jobs: How many teachers train side by side.
        engine: "local", or "ray" for a Ray cluster.
        console: Where progress is shown; None for silence.
        tensorboard: Also write TensorBoard events of the student.

    Returns:
        The student's classes and metrics.
    """
    settings = _check(plan, out, resume, jobs)
    tables = load_tables(plan)
    table, seed = tables.table, plan.recipe.training.seed
    parts = read_parts(out, table) or part_labels(table, settings, seed)
    teachers = list_teachers(plan, tables, parts, out)
    unfinished = [teacher for teacher in teachers if not _is_finished(teacher)]
    out.mkdir(parents=True, exist_ok=True)
    plan.write(out)
    with StopRequest() as stop:
        if unfinished:
            if console is not None and (out / CHECKPOINT_FOLDER).exists():
                names = ", ".join(teacher.name for teacher in unfinished)
                console.print(f"[yellow]the student has begun, but its teachers {names} are missing: training them[/]")
            _look_once(plan, tables, out, device, cache_folder, stop, console)
        # Noted only now: whatever was refused so far can be mended and begun anew in the same folder.
        write_parts(out, table, parts)
        for teacher in unfinished:
            teacher.folder.mkdir(parents=True, exist_ok=True)
            teacher.plan.write(teacher.folder)
        if unfinished:
            with Board(teachers, console) as board:
                errors = ENGINES[engine](
                    unfinished, jobs=jobs, device=device, cache_folder=cache_folder, stop=stop, tell=board.tell
                )
            if errors:
                raise TagloomError(_failed(errors, len(teachers), out))
        stop.leave_if_requested()
    return train(
        plan,
        out,
        resume=True,
        device=device,
        cache_folder=cache_folder,
        console=console,
        tensorboard=tensorboard,
        make_task=partial(distill_task, teachers, settings),
    )


def distill_task(teachers: list[Teacher], settings: Distillation, materials: Materials) -> DistillTask:
    """Make the student's task from the folders of its finished teachers."""
    batches, device = materials.batches, materials.device
    started = time.monotonic()
    groups: dict[str, TeacherGroup] = {}
    for kind in settings.kinds:
        group = [teacher for teacher in teachers if teacher.kind == kind]
        merged = merge_teachers(group, materials.classes, device, from_features=isinstance(batches, FeatureBatches))
        logits: TeacherLogits = online(merged)
        if isinstance(batches, FeatureBatches):

            def progress(done: int, total: int, kind: str = kind) -> None:
                materials.log.work(f"asking the {kind} teachers", done, total)
                materials.stop.leave_if_requested()

            logits = remember(merged, batches, device, progress)
        taught = [teacher.plan.classes or () for teacher in group]
        parts = part_matrix(materials.classes, taught) if settings.images == "with-labels" else None
        groups[kind] = TeacherGroup(logits, settings.weights[kind], parts)
    materials.log.event("teachers", count=len(teachers), seconds=time.monotonic() - started)
    return DistillTask(materials.forward, materials.loss, groups)


def merge_teachers(
    teachers: list[Teacher], classes: tuple[str, ...], device: torch.device, *, from_features: bool
) -> MergedTeachers:
    """Load the teachers of one kind from their folders and merge them into the student's order of classes.

    Args:
        teachers: All teachers of the kind.
        classes: The student's classes, in order.
        device: Where they compute.
        from_features: Whether they are asked about cached features, by their heads alone, or about pictures.
    """
    known: dict[str, tuple[str, ...]] = {}
    forwards: list[Forward] = []
    for teacher in teachers:
        if not (teacher.folder / SPEC_FILE).is_file():
            raise TaggerError(
                f"{teacher.folder}: the teacher {teacher.name} is missing, or was not finished. Train it, and nothing "
                f"that is there, with: tagloom distill --resume --out {teacher.folder.parent.parent}"
            )
        spec = read_spec(teacher.folder)
        known[teacher.name] = spec.classes
        network = load_network(teacher.folder, spec).requires_grad_(False).to(device)
        forwards.append(network.head.classify if from_features else network)
    return MergedTeachers(forwards, merge_order(classes, known))


def _check(plan: RunPlan, out: Path, resume: bool, jobs: int) -> Distillation:
    """Refuse what cannot be distilled before any work."""
    if plan.distill is None:
        raise TagloomError("the plan names no teachers: give RunPlan a Distillation.")
    if plan.recipe.activation != "sigmoid" or plan.recipe.task != "multi":
        raise RecipeError(
            "teachers of parts of the labels can be merged only where every label has a score of its own: take task "
            "'multi' and a loss other than 'cross-entropy'."
        )
    if plan.recipe.words.augmented:
        raise RecipeError(
            "teachers have nothing to say of words that are varied: set words.query_noise=0 and words.random_queries=0."
        )
    if jobs < 1:
        raise TagloomError(f"--jobs {jobs}: at least one teacher at a time must train.")
    check_options(plan.recipe)
    if (out / SPEC_FILE).exists():
        raise TagloomError(f"{out}: holds a finished tagger. Name another --out, or delete it first.")
    if resume:
        RunPlan.read(out).check_same(plan)
    elif (out / PARTS_FILE).exists() or (out / CHECKPOINT_FOLDER).exists():
        raise TagloomError(f"{out}: holds a run that was begun. Go on with --resume, or name another --out.")
    return plan.distill


def _is_finished(teacher: Teacher) -> bool:
    """Whether a teacher need not be trained; a folder that holds another teacher is refused, not overwritten."""
    if (teacher.folder / RUN_FILE).exists():
        try:
            RunPlan.read(teacher.folder).check_same(teacher.plan)
        except TagloomError as error:
            raise TagloomError(
                f"{teacher.folder}: is not the teacher that this run wants ({error}) Delete this folder to train the "
                "teacher again."
            ) from error
    return (teacher.folder / SPEC_FILE).exists()


def _look_once(
    plan: RunPlan, tables: Tables, out: Path, device: str, cache: Path, stop: StopRequest, console: Console | None
) -> None:
    """Read all images before any teacher starts: too many broken ones are refused, features go into the cache."""
    # Whatever a teacher learns from must be cached in both views; which images that is differs between teachers.
    everything = tables._replace(aside=np.zeros_like(tables.aside))
    recipe = replace(
        plan.recipe,
        data=replace(plan.recipe.data, holdout=0.0),
        training=replace(plan.recipe.training, standardise=False),
    )
    look = cached_parts if recipe.from_cache else image_parts
    with RunLog(out, console) as log:
        network = first_network(plan, tables.table.classes, cache, log)
        look(network, everything, recipe, cache_folder=cache, device=pick_device(device), stop=stop, log=log)


def _failed(errors: dict[str, str], count: int, out: Path) -> str:
    listed = "\n".join(f"  {name}: {error}" for name, error in errors.items())
    return (
        f"{len(errors)} of {count} teachers failed:\n{listed}\nThe others are finished and kept. Mend the cause and go "
        f"on with: tagloom distill --resume --out {out}"
    )
