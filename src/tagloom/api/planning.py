"""From the arguments of a training to its plan: for a new run, or joined with the plan of a run that is resumed."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tagloom.errors import RecipeError, TagloomError
from tagloom.recipe import Distillation, Recipe, change_settings, for_task, load_recipe
from tagloom.recipe.distillation import default_distillation
from tagloom.wording import shown

if TYPE_CHECKING:
    from tagloom.training.plan import RunPlan

StrPath: TypeAlias = str | os.PathLike[str]

DEFAULT_RECIPE = "quick"
EVERY_KIND = "all"
"""Stands for every kind of teachers among the weights of a distillation."""


@contextmanager
def run_folder(out: StrPath | None, default: str, *, resume: bool) -> Iterator[Path]:
    """Give the folder of a run: the one that is named, or by default the next free one.

    Without a name, a new run gets the first of `default`, `default`-2, `default`-3 … that does not exist, so that two
    runs never share a folder; a resumed one gets the only one of them that was started and is not finished. A folder
    that was made here and is still empty at the end is removed. `Interrupted` leaves with the folder's name.

    Args:
        out: The folder that somebody named; None for the default.
        default: The default, for example "runs/tagger".
        resume: Whether a run is continued.
    """
    from tagloom.training.launched import is_launched
    from tagloom.training.signals import Interrupted

    if out is not None:
        folder = Path(_path("out", out) or "")
    elif is_launched():
        raise TagloomError(
            "several processes train this run, and after a lost one they look for it again: name its folder with --out."
        )
    else:
        folder = _stopped_run(default) if resume else _next_free(default)
    try:
        yield folder
    except Interrupted as error:
        error.folder = folder
        raise
    finally:
        if out is None and not resume:
            with suppress(OSError):  # it is not empty: the run has begun
                folder.rmdir()


def progress_of(folder: Path) -> Literal["new", "started", "finished"]:
    """Say how far the run in a folder is."""
    from tagloom.tagger.spec import RUN_FILE, SPEC_FILE

    if (folder / SPEC_FILE).exists():
        return "finished"
    return "started" if (folder / RUN_FILE).exists() else "new"


def _numbered(default: str) -> Iterator[Path]:
    yield Path(default)
    yield from (Path(f"{default}-{number}") for number in count(2))


def _next_free(default: str) -> Path:
    """Make the first folder that does not exist; whoever else looks for one at the same time gets another."""
    for folder in _numbered(default):
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise TagloomError(f"{folder}: cannot be created ({error.strerror}). Name another --out.") from error
        return folder
    raise AssertionError("there is always a next number")


def _stopped_run(default: str) -> Path:
    """Find the one run under the default names that was started and is not finished."""
    found = [folder for folder in takewhile(Path.exists, _numbered(default)) if progress_of(folder) == "started"]
    if len(found) > 1:
        raise TagloomError(
            f"several runs were stopped: {', '.join(map(str, found))}. Say which one to continue with --out."
        )
    return found[0] if found else Path(default)


def plan_run(
    verb: str,
    data: StrPath | None,
    out: Path,
    *,
    val: StrPath | None,
    recipe: StrPath | Recipe | None,
    epochs: int | None,
    settings: Mapping[str, Any] | None,
    data_options: Mapping[str, str] | None,
    resume: bool,
    task: str | None = None,
    start_from: StrPath | None = None,
    split: StrPath | None = None,
) -> "RunPlan":
    """Plan a run. Whatever is None is as the resumed run has it, or else the default.

    Args:
        verb: What is called, "train" or "distill", for messages.
        data: As `tagloom.train` takes it, like all that follow.
        out: The folder of the run.
        val: The validation table.
        recipe: A name, a file or a recipe.
        epochs: Short for `settings={"training.epochs": …}`.
        settings: Changes to the recipe by dotted names.
        data_options: How the tables are read.
        resume: Whether the run in `out` is continued. A plan that differs from that run's is refused.
        task: The task to turn the recipe to.
        start_from: The tagger folder whose weights the run starts with.
        split: Which labels to leave out of training.
    """
    from tagloom.training.plan import RunPlan

    begun = RunPlan.read(out) if resume else None
    if begun is None and data is None:
        raise TagloomError(
            f"name a label table to train on: tagloom {verb} photos/train.csv, or in Python "
            f'tagloom.{verb}("photos/train.csv")'
        )
    base = begun.recipe if begun and recipe is None else find_recipe(DEFAULT_RECIPE if recipe is None else recipe)
    before = begun or RunPlan("", None, base)
    plan = replace(
        before,
        data=_path("data", data) or before.data,
        val=_path("val", val) or before.val,
        recipe=change_settings(for_task(base, task), _changes(settings, epochs)),
        data_options=dict(data_options or before.data_options),
        start=_path("start_from", start_from) or before.start,
    )
    if split is not None:
        plan = _without_unseen(plan, os.fspath(split))
    if begun:
        begun.check_same(plan)
    return plan


def plan_teachers(
    begun: Distillation | None,
    recipe: Recipe,
    *,
    kinds: str | Sequence[str] | None = None,
    weights: float | Mapping[str, float] | None = None,
    **choices: Any,
) -> Distillation:
    """Decide how teachers take part: as given, or else as the resumed run has it, the recipe says, or by default.

    Args:
        begun: The choices of the resumed run, if there is one.
        recipe: The student's recipe.
        kinds: How the labels are split; one kind or several.
        weights: One weight for every kind, or a weight by kind.
        **choices: Other fields of `Distillation`; None leaves one as it is.
    """
    given = {name: value for name, value in choices.items() if value is not None}
    if kinds is not None:
        given["kinds"] = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    base = begun or recipe.distill or default_distillation(recipe.training.epochs)
    wanted = given.get("kinds", base.kinds)
    kept = {kind: weight for kind, weight in base.weights.items() if kind in wanted}
    return replace(base, **given, weights=kept | _by_kind(weights, wanted))


def _by_kind(weights: float | Mapping[str, float] | None, kinds: Sequence[str]) -> dict[str, float]:
    """Spell out the weights of all kinds that are named; of two that name the same kind the later one counts."""
    if weights is None:
        return {}
    named = weights if isinstance(weights, Mapping) else {EVERY_KIND: weights}
    found: dict[str, float] = {}
    for name, weight in named.items():
        found.update(dict.fromkeys(kinds if name == EVERY_KIND else [name], weight))
    return found


def find_recipe(recipe: StrPath | Recipe) -> Recipe:
    """Give a recipe by its name or file; one that is a recipe already stays as it is."""
    if isinstance(recipe, Recipe):
        return recipe
    if isinstance(recipe, str | os.PathLike):
        return load_recipe(os.fspath(recipe))
    raise RecipeError(f"recipe is {shown(recipe)}; give the name of a recipe, a .yaml file or a Recipe.")


def _changes(settings: Mapping[str, Any] | None, epochs: int | None) -> dict[str, Any]:
    if settings is not None and not isinstance(settings, Mapping):
        raise RecipeError(f"settings is {shown(settings)}; give a dict, for example {{'training.batch_size': 32}}.")
    return {**(settings or {}), **({} if epochs is None else {"training.epochs": epochs})}


def _path(name: str, value: StrPath | None) -> str | None:
    """Give a path as text, as the plan stores it; a run reads its tables again when it is resumed."""
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike):
        raise TagloomError(f"{name} is {shown(value)}; give the path of a file or folder.")
    return os.fspath(value)


def _without_unseen(plan: "RunPlan", split: str) -> "RunPlan":
    """Leave the unseen labels out of a plan, and keep the table that was read for it."""
    from tagloom.data import load_table
    from tagloom.labels.split import read_split

    table = load_table(plan.data, **plan.data_options)
    return replace(plan, classes=read_split(split, table.classes).seen, table=table)
