"""The tables of a run: what its plan selects from the training and the validation table, and which images are held out.

Which images are held out is decided here, once, before anything is left out, by table and seed alone. So the teachers
of a distillation, each of which trains some of the labels on some of the images, hold out the same images as their
student, and no teacher has learned from an image that the student is measured on.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape

from tagloom.data import load_table
from tagloom.data.absent import columns_with_few_negatives, columns_without_negatives, presume_negative
from tagloom.data.audit import MIN_IMAGES
from tagloom.data.audit.class_names import name_clashes
from tagloom.data.table import LabelTable
from tagloom.data.tree_labels import with_tree
from tagloom.errors import DataError, RecipeError
from tagloom.recipe import Recipe
from tagloom.recipe.distillation import Images
from tagloom.recipe.parts import MOST_HELD_OUT
from tagloom.training.context import RunContext
from tagloom.training.plan import RunPlan
from tagloom.wording import listed, printable, shown


class Tables(NamedTuple):
    """What a run works on.

    Attributes:
        table: The training table.
        held_out: (images,) bool, whether each of its images is held out.
        val: The validation table, with the same classes; None without one.
    """

    table: LabelTable
    held_out: NDArray[np.bool_]
    val: LabelTable | None

    @property
    def silent(self) -> NDArray[np.bool_]:
        """(classes,), the classes whose absence nobody states: `unknown` of the recipe says how they are learned."""
        return columns_with_few_negatives(self.table)


def load_tables(plan: RunPlan) -> Tables:
    """Read the tables of a plan, check them, and select what the plan names."""
    whole = load_table(plan.data, **plan.data_options) if plan.table is None else plan.table
    val = load_table(plan.val, **plan.data_options) if plan.val else None
    if val is not None:
        val = with_tree(val, whole.parents, classes=whole.classes)
    _check_tables(whole, val, plan.recipe)
    held_out = hold_out(whole, plan.recipe)
    table, rows = focus(whole, plan.classes, plan.images)
    if plan.classes is not None and table.select(~held_out[rows]).positive.nnz == 0:
        raise DataError(no_positive(whole.source, table.classes))
    if val is not None:
        val, _ = focus(val, plan.classes, plan.images)
        if val.positive.nnz == 0:  # it has none of the plan's classes, so there is nothing to measure
            val = None
    if val is not None:  # a class without a negative would be perfect, whatever it scores
        val = presume_negative(val, columns_without_negatives(val))
    return Tables(table, held_out[rows], val)


def focus(table: LabelTable, classes: tuple[str, ...] | None, images: Images) -> tuple[LabelTable, NDArray[np.int64]]:
    """Select some classes of a table and, on request, only the images that have one of them.

    Args:
        table: The whole table.
        classes: The classes to keep, in the order wanted; None for all.
        images: "all" or "with-labels".

    Returns:
        The selected table, and the rows that its images had.
    """
    chosen = table if classes is None else table.with_classes(classes, on_missing="error", on_extra="drop")
    rows = np.arange(len(chosen)) if images == "all" else np.flatnonzero(np.diff(chosen.positive.indptr))
    return chosen.select(rows), rows


def hold_out(table: LabelTable, recipe: Recipe) -> NDArray[np.bool_]:
    """Say which images are held out, (images,), at most `MOST_HELD_OUT`; none where those drawn would have no label."""
    held_out = np.zeros(len(table), np.bool_)
    share = min(recipe.data.holdout, MOST_HELD_OUT / len(table))
    if share > 0:
        held_out[table.split_rows(share, recipe.training.seed)[1]] = True
    return held_out if table.select(held_out).positive.nnz else np.zeros_like(held_out)


def label_fingerprint(table: LabelTable) -> str:
    """Hash classes and labels, row by row, without the names of the images: data that moved stays the same."""
    return replace(table, images=[""] * len(table)).fingerprint()


def report_tables(tables: Tables, recipe: Recipe, context: RunContext) -> None:
    """Log what a run starts with, and point out a task that looks wrong."""
    table = tables.table
    context.log.start(images=len(table), classes=len(table.classes), device=str(context.device))
    if recipe.task == "multi" and (np.diff(table.positive.indptr) == 1).all():
        context.log.say("[yellow]every image has exactly one label: did you mean --task single?[/]")
    if silent := int(tables.silent.sum()):
        context.log.event("silent", classes=silent, learn_as=recipe.unknown.learn_as)
        context.log.say(
            f"[yellow]{silent} of {len(table.classes)} classes have fewer known negatives than positives; their "
            f"unknown pairs are learned as {recipe.unknown.learn_as} (recipe: unknown)[/]"
        )
    if clashes := name_clashes(table.classes):
        names = listed((" and ".join(map(shown, names)) for names in clashes), most=5)
        context.log.event("alike", classes=clashes)
        context.log.say(
            f"[yellow]classes that differ only in case, spaces or Unicode form are trained as different classes: "
            f"{escape(printable(names))}. If they mean the same, give them one name; 'tagloom check' lists them[/]"
        )


def no_positive(source: str, classes: tuple[str, ...]) -> str:
    """Say that there is nothing to learn some classes from."""
    return f"{source}: no image to learn from has any of {listed(map(repr, classes))}, so there is nothing to learn."


def _check_tables(table: LabelTable, val: LabelTable | None, recipe: Recipe) -> None:
    """Refuse tables that cannot be trained or measured with this recipe."""
    parts = [table] if val is None else [table, val]
    if len(table) < MIN_IMAGES:
        raise DataError(f"{table.source}: {len(table)} image is too little to train on.")
    for part in parts:
        if part.positive.nnz == 0:
            raise DataError(f"{part.source}: no image has any label, so there is nothing to learn or to measure.")
    if val is None and recipe.data.holdout == 0 and (recipe.training.patience or recipe.training.select == "best"):
        raise RecipeError(
            "training.select 'best' and training.patience need images to watch, and there are none: give a validation "
            "table (--val), hold some images out (data.holdout), or set training.select=last and training.patience=0."
        )
    if recipe.task == "single":
        for part in parts:
            _check_single(part)


def _check_single(table: LabelTable) -> None:
    counts = np.diff(table.positive.indptr)
    if (counts != 1).any():
        row = int(np.flatnonzero(counts != 1)[0])
        raise DataError(
            f"{table.source}: {table.images[row]} has {counts[row]} labels, but task 'single' wants exactly one per "
            "image. Train with task: multi (--set task=multi), or fix the table."
        )
