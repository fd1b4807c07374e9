"""The runs of a study: planned before the first one starts, and each trained, resumed or kept as it is."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tagloom.api.planning import EVERY_KIND, plan_teachers
from tagloom.data.packed.places import absolute_place
from tagloom.errors import RecipeError, TagloomError, unknown_name
from tagloom.recipe import Distillation, Recipe, change_settings, load_recipe, read_settings
from tagloom.recipe.distillation import TEACHER_KINDS, default_distillation
from tagloom.studies.variants import Variant
from tagloom.tagger.spec import RUN_FILE, SPEC_FILE

if TYPE_CHECKING:
    from tagloom.training.plan import RunPlan

_PREFIX = "distill."
_ABOUT = ("purpose", "licence", "paper", "reports")  # what a recipe says of itself; no result depends on it


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study: a variant, a seed, a plan and a folder."""

    variant: Variant
    seed: int
    plan: "RunPlan"
    folder: Path

    @property
    def finished(self) -> bool:
        """Whether it is trained already."""
        return (self.folder / SPEC_FILE).exists()


def plan_runs(
    variants: Sequence[Variant], out: Path, *, data: str, val: str | None, data_options: Mapping[str, str]
) -> list[PlannedRun]:
    """Plan every run, so that what is wrong with any of them shows before the first one starts.

    Two variants that come to the same training share a run. A folder that holds another run is refused.
    """
    from tagloom.training.plan import RunPlan, check_options

    runs: list[PlannedRun] = []
    wanted: list[tuple[RunPlan, Path]] = []
    for variant in variants:
        for seed in variant.seeds:
            recipe, distill = choices(variant, seed)
            check_options(recipe)
            plan = RunPlan(data, val, recipe, data_options=dict(data_options), distill=distill)
            folder = next((found for same, found in wanted if same == plan), variant.folder(out, seed))
            wanted.append((plan, folder))
            runs.append(PlannedRun(variant, seed, _as_begun(plan, folder), folder))
    return runs


def choices(variant: Variant, seed: int) -> tuple[Recipe, Distillation | None]:
    """Decide the recipe of a run, and how teachers take part in it: None for plain training.

    Teachers take part if the recipe has a `distill` section or the settings name one of its fields. A student trains as
    long as its recipe says, unless `distill.student_epochs` says otherwise, so that rows with and without teachers
    compare. As in the CPSD paper's Figure 3, no parts (`distill.k=0`) stand for training without teachers, as long as
    with them, and one part for self-distillation.
    """
    recipe = variant.recipe if isinstance(variant.recipe, Recipe) else load_recipe(variant.recipe)
    changes = read_settings(variant.settings)
    teachers = {name.removeprefix(_PREFIX): changes.pop(name) for name in list(changes) if name.startswith(_PREFIX)}
    known = [entry.name for entry in fields(Distillation)]
    for name in teachers:
        if name not in known:
            raise RecipeError(f"--set {_PREFIX}{name}: " + unknown_name("setting of distill", name, known))
    recipe = change_settings(recipe, {**changes, "training.seed": seed})
    if recipe.distill is None and not teachers:
        return recipe, None
    base = recipe.distill or replace(default_distillation(recipe.training.epochs), student_epochs=None)
    k = teachers.get("k")
    if k == 0:
        epochs = teachers.get("student_epochs") or base.student_epochs or recipe.training.epochs
        return replace(recipe, training=replace(recipe.training, epochs=epochs)), None
    if "weights" not in teachers and recipe.distill and len(set(base.weights.values())) == 1:
        teachers["weights"] = {EVERY_KIND: next(iter(base.weights.values()))}  # also of kinds it has not
    if k == 1:
        weights = teachers.get("weights")
        teachers |= {"kinds": "self"} | ({"weights": max(weights.values())} if isinstance(weights, Mapping) else {})
    if "random" not in teachers.get("kinds", base.kinds):  # in a sweep over kinds it counts for one of them
        teachers.pop("random_sizes", None)
    return recipe, plan_teachers(base, recipe, **teachers)


def carry_out(run: PlannedRun, **options: Any) -> bool:
    """Train a run, or go on with one that was stopped. Say whether it is finished: another process may be at it.

    Args:
        run: The run.
        **options: As `tagloom.training.run.train` takes them; `jobs` counts for teachers only.
    """
    from tagloom.training.distill.run import distill
    from tagloom.training.lock import LockedError
    from tagloom.training.run import train
    from tagloom.training.signals import Interrupted

    resume, jobs = (run.folder / RUN_FILE).exists(), options.pop("jobs")
    try:
        if run.plan.distill is None:
            train(run.plan, run.folder, resume=resume, **options)
        else:
            if not resume:
                _copy_teachers(run)
            distill(run.plan, run.folder, resume=resume, jobs=jobs, **options)
    except LockedError:
        return run.finished
    except Interrupted:
        raise
    except TagloomError:
        if not run.finished:  # otherwise another process has finished it in the meantime
            raise
    return True


def _as_begun(plan: "RunPlan", folder: Path) -> "RunPlan":
    """Give the plan as a run in the folder was begun with it; refuse one that was begun otherwise."""
    from tagloom.training.plan import RunPlan

    if not (folder / RUN_FILE).exists():
        return plan
    begun = RunPlan.read(folder)
    about = {name: getattr(begun.recipe, name) for name in _ABOUT}
    wanted = replace(plan, recipe=replace(plan.recipe, **about))
    try:
        begun.check_same(wanted)
    except TagloomError as error:
        raise TagloomError(f"{folder}: holds another run than this study wants. {error}") from error
    moved = [path for path, now in ((begun.data, plan.data), (begun.val, plan.val)) if path != _placed(now)]
    if moved and (folder / SPEC_FILE).exists():
        raise TagloomError(
            f"{folder}: was trained and measured on {begun.data} and {begun.val}. Name these tables, or another --out."
        )
    return wanted


def _placed(path: str | None) -> str | None:
    return None if path is None else absolute_place(path)


def _copy_teachers(run: PlannedRun) -> None:
    """Copy the teachers that this run wants and another run of the study and seed has trained already."""
    from tagloom.training.distill.teachers import TEACHERS_FOLDER
    from tagloom.training.plan import RunPlan

    kinds = run.plan.distill.kinds if run.plan.distill else ()
    for other in sorted(run.folder.parent.glob(f"*-seed{run.seed}")):
        if not (other / TEACHERS_FOLDER).is_dir() or not (other / RUN_FILE).exists():
            continue
        if _about_teachers(RunPlan.read(other)) != _about_teachers(run.plan):
            continue
        for teacher in sorted((other / TEACHERS_FOLDER).iterdir()):
            target = run.folder / TEACHERS_FOLDER / teacher.name
            wanted = teacher.name.rpartition("-")[0] in kinds and (teacher / SPEC_FILE).exists()
            if wanted and not (target / SPEC_FILE).exists():
                shutil.copytree(teacher, target, dirs_exist_ok=True)


def _about_teachers(plan: "RunPlan") -> "RunPlan":
    """Reduce a plan to what its teachers depend on: not the kinds that there are, their weights, nor the student."""
    placed = plan.placed()
    alike: dict[str, Any] = {name: getattr(Recipe(), name) for name in ("name", *_ABOUT)}
    training = replace(placed.recipe.training, epochs=1)
    student: dict[str, Any] = {"kinds": TEACHER_KINDS, "weights": {}, "student_epochs": None, "baseline": False}
    distill = None if placed.distill is None else replace(placed.distill, **student)
    recipe = replace(placed.recipe, **alike, training=training, distill=None)
    return replace(placed, recipe=recipe, distill=distill, table=None)
