"""The tables of a run: what its plan leaves of the training and the validation table, and which images are held aside.

Images are held aside before anything is left out, by table and seed alone. So the teachers of a distillation, each of
which trains some of the labels on some of the images, hold aside the same images as their student, and nothing that the
student is measured on was ever learned from.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.data import load_table
from tagloom.data.audit import MIN_IMAGES
from tagloom.data.table import LabelTable
from tagloom.errors import DataError, RecipeError
from tagloom.recipe import Recipe
from tagloom.recipe.distillation import Images
from tagloom.training.plan import RunPlan


class Tables(NamedTuple):
    """What a run works on.

    Attributes:
        table: The training table.
        aside: (images,) bool, whether each of its images is held aside.
        val: The validation table, with the same classes; None without one.
    """

    table: LabelTable
    aside: NDArray[np.bool_]
    val: LabelTable | None


def load_tables(plan: RunPlan) -> Tables:
    """Read the tables of a plan, check them, and leave what the plan asks for."""
    whole = load_table(plan.data, **plan.data_options)
    val = load_table(plan.val, **plan.data_options).with_classes(whole.classes) if plan.val else None
    _check_tables(whole, val, plan.recipe)
    aside = hold_aside(whole, plan.recipe)
    table, rows = focus(whole, plan.classes, plan.images)
    if plan.classes is not None and table.select(~aside[rows]).positive.nnz == 0:
        raise DataError(no_positive(whole.source, table.classes))
    if val is not None:
        val, _ = focus(val, plan.classes, plan.images)
        if val.positive.nnz == 0:  # none of the plan's classes is in there, so there is nothing to measure
            val = None
    return Tables(table, aside[rows], val)


def focus(table: LabelTable, classes: tuple[str, ...] | None, images: Images) -> tuple[LabelTable, NDArray[np.int64]]:
    """Leave of a table some classes and, if asked, only the images that have one of them.

    Args:
        table: The whole table.
        classes: The classes to keep, in the order wanted; None for all.
        images: "all" or "with-labels".

    Returns:
        The table that is left, and the rows that its images had.
    """
    chosen = table if classes is None else table.with_classes(classes, on_missing="error", on_extra="drop")
    rows = np.arange(len(chosen)) if images == "all" else np.flatnonzero(np.diff(chosen.positive.indptr))
    return chosen.select(rows), rows


def hold_aside(table: LabelTable, recipe: Recipe) -> NDArray[np.bool_]:
    """Say which images are held aside, (images,); none where those chosen would have no label at all."""
    aside = np.zeros(len(table), np.bool_)
    if recipe.data.holdout > 0:
        aside[table.split_rows(recipe.data.holdout, recipe.training.seed)[1]] = True
    return aside if table.select(aside).positive.nnz else np.zeros_like(aside)


def no_positive(source: str, classes: tuple[str, ...]) -> str:
    """Say that there is nothing to learn some classes from."""
    named = ", ".join(map(repr, classes[:8])) + (f" and {len(classes) - 8} more" if len(classes) > 8 else "")
    return f"{source}: no image to learn from has any of {named}, so there is nothing to learn."


def _check_tables(table: LabelTable, val: LabelTable | None, recipe: Recipe) -> None:
    if len(table) < MIN_IMAGES:
        raise DataError(f"{table.source}: {len(table)} image is too little to train on.")
    for part in [table] if val is None else [table, val]:
        if part.positive.nnz == 0:
            raise DataError(f"{part.source}: no image has any label, so there is nothing to learn or to measure.")
    if val is None and recipe.data.holdout == 0 and (recipe.training.patience or recipe.training.select == "best"):
        raise RecipeError(
            "training.select 'best' and training.patience need images to watch, and there are none: give a validation "
            "table (--val), hold some aside (data.holdout), or set training.select=last and training.patience=0."
        )
    if recipe.task == "single":
        for part in [table] if val is None else [table, val]:
            counts = np.diff(part.positive.indptr)
            if (counts != 1).any():
                row = int(np.flatnonzero(counts != 1)[0])
                raise DataError(
                    f"{part.source}: {part.images[row]} has {counts[row]} labels, but task 'single' wants exactly one "
                    "per image. Train with task: multi (--set task=multi), or mend the table."
                )
