"""Which teachers a distillation has: the labels parted, and a plan of an ordinary run for every part."""

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
from tagloom.training.tables import Tables, focus, no_positive

PARTS_FILE = "parts.json"
TEACHERS_FOLDER = "teachers"
Parts = dict[str, list[list[str]]]
"""Class names of each part, by kind."""


@dataclass(frozen=True)
class Teacher:
    """One teacher.

    Attributes:
        name: Its kind and number, for example "co-1"; also the name of its folder.
        kind: How the labels were parted.
        folder: Where it is trained: an ordinary run, and then a tagger folder.
        plan: What it is trained with.
    """

    name: str
    kind: str
    folder: Path
    plan: RunPlan


def teacher_epochs(epochs: int) -> int:
    """Choose how long teachers train: a quarter of the student's epochs, as in the paper (20 and 80), at least one.

    >>> [teacher_epochs(epochs) for epochs in (80, 10, 1)]
    [20, 2, 1]
    """
    return max(1, round(epochs / 4))


def part_labels(table: LabelTable, settings: Distillation, seed: int) -> Parts:
    """Part the labels of a table, once for each kind of teachers."""
    parts: Parts = {}
    for kind in settings.kinds:
        if kind == "self":
            found = [list(range(len(table.classes)))]
        elif kind == "random":
            found = random_partition(len(table.classes), settings.k, seed)
        else:
            found = partition(table.positive, settings.k, cast(Kind, kind), settings.tau, seed)
        parts[kind] = [[table.classes[label] for label in part] for part in found]
    return parts


def write_parts(out: Path, table: LabelTable, parts: Parts) -> None:
    """Note in a folder how the labels of a table are parted."""
    content = {"table": table.fingerprint(), "parts": parts}
    with whole_file(out / PARTS_FILE) as partial:
        partial.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")


def read_parts(out: Path, table: LabelTable) -> Parts | None:
    """Read how the labels of a table were parted, or None when nothing is noted yet.

    A run that is resumed takes them up and does not part anew, so that it has the same teachers even on a machine
    whose sums round otherwise.
    """
    path = out / PARTS_FILE
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        noted, kinds = content["table"], content["parts"]
        parts = {str(kind): [[str(name) for name in part] for part in found] for kind, found in kinds.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TagloomError(
            f"{path}: cannot be read as the parts of the labels ({error}). Delete it to part them again."
        ) from error
    if noted != table.fingerprint():
        raise TagloomError(
            f"{path}: the labels of {table.source} have changed since they were parted, so the teachers no longer fit. "
            "Bring the table back, or distil into another --out."
        )
    return parts


def list_teachers(plan: RunPlan, tables: Tables, parts: Parts, out: Path) -> list[Teacher]:
    """Plan a run for every part: the student's recipe, fitted to the part's classes and the teachers' epochs.

    Args:
        plan: The student's.
        tables: The student's.
        parts: Class names of each part, by kind.
        out: The student's folder.
    """
    settings = cast(Distillation, plan.distill)
    recipe = replace(
        plan.recipe,
        # Few images may be a large share of a part's; whether too many are broken is judged by the whole table.
        data=replace(plan.recipe.data, max_broken=1.0),
        training=replace(plan.recipe.training, epochs=settings.teacher_epochs),
    )
    teachers = []
    for kind, found in parts.items():
        for number, part in enumerate(found, start=1):
            classes = tuple(part)
            learned, rows = focus(tables.table, classes, "with-labels")
            if tables.aside[rows].all():
                raise DataError(
                    f"{no_positive(tables.table.source, classes)} They are part {number} of the {kind} teachers: take "
                    f"fewer and larger parts (--k {max(1, len(found) - 1)}), or add images."
                )
            teachers.append(
                Teacher(
                    name=f"{kind}-{number}",
                    kind=kind,
                    folder=out / TEACHERS_FOLDER / f"{kind}-{number}",
                    plan=replace(
                        plan,
                        recipe=fit_recipe(recipe, tables.table.classes, learned.classes),
                        classes=classes,
                        images=settings.images,
                        export=False,
                        distill=None,
                    ),
                )
            )
    return teachers


def fit_recipe(recipe: Recipe, classes: Sequence[str], part: Sequence[str]) -> Recipe:
    """Fit the options that count or list classes to a part of them; what counts no classes stays.

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
            f"the option {name} lists {len(values)} values for {classes} classes, so it cannot be parted among "
            "teachers: give one value per class, or leave it out."
        )
    return [values[place] for place in chosen]
