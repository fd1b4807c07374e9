"""What a distillation trains before its student: a teacher per part of the labels and, on request, a baseline.

Each of them is an ordinary run with a plan and a folder of its own.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from tagloom.data.table import LabelTable
from tagloom.errors import DataError, RecipeError, TagloomError
from tagloom.files import whole_file
from tagloom.labels.graph import Kind, partition, random_partition
from tagloom.recipe import Recipe
from tagloom.recipe.distillation import Distillation
from tagloom.recipe.head_parts import part_options
from tagloom.training.plan import RunPlan
from tagloom.training.tables import Tables, focus, label_fingerprint, no_positive

PARTS_FILE = "parts.json"
TEACHERS_FOLDER = "teachers"
BASELINE_FOLDER = "baseline"
Partitions = dict[str, list[list[str]]]
"""One partition of the classes per kind of teachers: the class names of each part."""


@dataclass(frozen=True)
class PlannedRun:
    """An ordinary run that a distillation needs.

    Attributes:
        name: What it is called; also the name of its folder.
        folder: Where it is trained: a run, and then a tagger folder.
        plan: What it is trained with.
    """

    name: str
    folder: Path
    plan: RunPlan

    @property
    def title(self) -> str:
        """What a line about it starts with."""
        return self.name


@dataclass(frozen=True)
class Teacher(PlannedRun):
    """One teacher, named after its kind and number, for example "co-1".

    Attributes:
        kind: How the labels were split.
    """

    kind: str

    @property
    def title(self) -> str:
        """What a line about it starts with."""
        return f"teacher {self.name}"


def student_plan(plan: RunPlan) -> RunPlan:
    """Give the plan of a distillation with the student's epochs in its recipe."""
    epochs = cast(Distillation, plan.distill).student_epochs or plan.recipe.training.epochs
    return replace(plan, recipe=_for_epochs(plan.recipe, epochs))


def list_baseline(plan: RunPlan, out: Path) -> list[PlannedRun]:
    """List the student without teachers, if a distillation wants it: the same recipe, images and epochs.

    Args:
        plan: The distillation's.
        out: The student's folder.
    """
    if not cast(Distillation, plan.distill).baseline:
        return []
    return [PlannedRun(BASELINE_FOLDER, out / BASELINE_FOLDER, replace(student_plan(plan), distill=None))]


def split_labels(table: LabelTable, settings: Distillation, seed: int) -> Partitions:
    """Split the labels of a table into parts, once for each kind of teachers."""
    partitions: Partitions = {}
    for kind in settings.kinds:
        if kind == "self":
            found = [list(range(len(table.classes)))]
        elif kind == "random":
            found = random_partition(len(table.classes), settings.k, seed, settings.random_sizes)
        else:
            found = partition(table.positive, settings.k, cast(Kind, kind), settings.tau, seed)
        partitions[kind] = [[table.classes[column] for column in part] for part in found]
    return partitions


def write_partitions(out: Path, table: LabelTable, partitions: Partitions) -> None:
    """Write to a folder how the labels of a table are split."""
    content = {"table": label_fingerprint(table), "parts": partitions}
    with whole_file(out / PARTS_FILE) as partial:
        partial.write_text(json.dumps(content, indent=1), encoding="utf-8")


def read_partitions(out: Path, table: LabelTable) -> Partitions | None:
    """Read how the labels of a table were split; None if nothing is written yet.

    A resumed run reads this and does not split again, so that it has the same teachers even on a machine that rounds
    sums differently.
    """
    path = out / PARTS_FILE
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        fingerprint, kinds = content["table"], content["parts"]
        partitions = {str(kind): [[str(name) for name in part] for part in parts] for kind, parts in kinds.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TagloomError(
            f"{path}: cannot be read as parts of the labels ({error}). Delete it to split them again."
        ) from error
    if fingerprint != label_fingerprint(table):
        raise TagloomError(
            f"{path}: the labels of {table.source} have changed since they were split, so the teachers no longer fit. "
            "Restore the table, or name another --out."
        )
    return partitions


def list_teachers(plan: RunPlan, tables: Tables, partitions: Partitions, out: Path) -> list[Teacher]:
    """Plan a run for every part.

    Args:
        plan: The student's.
        tables: The student's.
        partitions: The class names of each part, by kind.
        out: The student's folder.
    """
    teachers = []
    for kind, parts in partitions.items():
        for number, part in enumerate(parts, start=1):
            _, rows = focus(tables.table, tuple(part), "with-labels")
            if tables.held_out[rows].all():
                raise DataError(
                    f"{no_positive(tables.table.source, tuple(part))} They are part {number} of the {kind} teachers: "
                    f"choose fewer and larger parts (--k {max(1, len(parts) - 1)}), or add images."
                )
            name = f"{kind}-{number}"
            teacher_plan = _teacher_plan(plan, tables.table.classes, tuple(part))
            teachers.append(Teacher(name, out / TEACHERS_FOLDER / name, teacher_plan, kind))
    return teachers


def _teacher_plan(plan: RunPlan, classes: tuple[str, ...], part: tuple[str, ...]) -> RunPlan:
    """Fit the student's plan to the classes of a part and the teachers' epochs."""
    settings = cast(Distillation, plan.distill)
    rate = settings.teacher_learning_rate or plan.recipe.optimiser.learning_rate
    recipe = replace(
        _for_epochs(plan.recipe, settings.teacher_epochs),
        optimiser=replace(plan.recipe.optimiser, learning_rate=rate),
        # A few broken images may be a large share of a part's; whether they are too many is judged by the whole table.
        data=replace(plan.recipe.data, max_broken=1.0),
    )
    return replace(
        plan,
        recipe=fit_recipe(recipe, classes, part),
        classes=part,
        images=settings.images,
        export=False,
        distill=None,
    )


def _for_epochs(recipe: Recipe, epochs: int) -> Recipe:
    return replace(recipe, training=replace(recipe.training, epochs=epochs))


def fit_recipe(recipe: Recipe, classes: Sequence[str], part: Sequence[str]) -> Recipe:
    """Fit the options that count or list classes to a part of them; all others stay.

    Args:
        recipe: The student's.
        classes: The student's classes, in order.
        part: The teacher's, in order.
    """
    if len(part) == len(classes):
        return recipe
    number = {name: place for place, name in enumerate(classes)}
    chosen = [number[name] for name in part]
    head, loss = dict(recipe.head.options), dict(recipe.loss.options)
    readout = part_options("readout", head.get("readout"))
    groups, grouping = readout.get("groups"), readout.get("grouping")
    if isinstance(grouping, list):
        place = {member: new for new, member in enumerate(chosen)}
        restricted = [[place[member] for member in group if member in place] for group in grouping]
        readout.pop("groups", None)
        head["readout"] = readout | {"grouping": [group for group in restricted if group]}
    elif isinstance(groups, int):
        head["readout"] = readout | {"groups": min(groups, len(part))}
    if loss.get("weights") is not None:
        loss["weights"] = _rows(loss["weights"], chosen, len(classes), "weights")
    return replace(recipe, head=replace(recipe.head, options=head), loss=replace(recipe.loss, options=loss))


def _rows(values: Any, chosen: list[int], classes: int, name: str) -> list[Any]:
    if len(values) != classes:
        raise RecipeError(
            f"the option {name} lists {len(values)} values for {classes} classes, so it cannot be split among "
            "teachers: give one value per class, or leave it out."
        )
    return [values[place] for place in chosen]
