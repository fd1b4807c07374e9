"""Scores of every image of a table from taggers that did not learn from it.

The table is cut into folds, and each fold is scored by a tagger of the others. With cached features a fold takes
seconds.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.losses import Loss
from tagloom.models.network import pick_device
from tagloom.recipe import Recipe
from tagloom.training.checkpoint import CheckpointStore
from tagloom.training.context import RunContext
from tagloom.training.features.prepare import make_batches
from tagloom.training.log import RunLog
from tagloom.training.loop import fit
from tagloom.training.network import first_network, trained_part
from tagloom.training.optimiser import create_optimiser
from tagloom.training.plan import RunPlan, check_options
from tagloom.training.signals import StopRequest
from tagloom.training.tables import Tables
from tagloom.training.tasks.choose import choose_task
from tagloom.training.unknown import loss_with_unknown
from tagloom.training.validation import score_batches


class OutOfFold(NamedTuple):
    """Logits of the images that can be read.

    Attributes:
        rows: (n,) rows of the table.
        logits: (n, N).
    """

    rows: NDArray[np.int64]
    logits: NDArray[np.float32]


def assign_folds(table: LabelTable, folds: int, seed: int) -> NDArray[np.int64]:
    """Give each image a fold, (images,), so that every class has about the same share of positives in each."""
    if not 2 <= folds <= len(table):
        raise DataError(
            f"{table.source}: {len(table)} images cannot be cut into {folds} folds. Choose 2 to {len(table)}."
        )
    fold_of = np.zeros(len(table), np.int64)
    left = np.arange(len(table))
    for fold in range(folds - 1):
        rest, taken = table.select(left).split_rows(1 / (folds - fold), seed + fold)
        fold_of[left[taken]] = fold
        left = left[rest]
    fold_of[left] = folds - 1
    return fold_of


def score_out_of_fold(
    table: LabelTable,
    recipe: Recipe,
    folds: int,
    *,
    device: str = "auto",
    cache_folder: Path,
    console: Console | None = None,
) -> OutOfFold:
    """Train a tagger per fold on all other folds, and score the fold with it.

    Args:
        table: Images with labels.
        recipe: How to train; the last epoch counts, since nothing is held out to choose another by.
        folds: How many.
        device: "auto", "cpu", "cuda" or "mps".
        cache_folder: Where features of frozen backbones are kept.
        console: Where to show progress; None for silence.
    """
    recipe = replace(recipe, training=replace(recipe.training, select="last", patience=0))
    loss = check_options(recipe)
    fold_of = assign_folds(table, folds, recipe.training.seed)
    logits = np.zeros((len(table), len(table.classes)), np.float32)
    readable = np.zeros(len(table), np.bool_)
    chosen_device = pick_device(device)
    for fold in range(folds):
        with (
            TemporaryDirectory(prefix="tagloom-fold-") as out,
            StopRequest() as stop,
            RunLog(Path(out), console, False) as log,
        ):
            log.say(f"[dim]fold {fold + 1} of {folds}[/]")
            context = RunContext(Path(out), chosen_device, cache_folder, stop, log)
            found = _score_fold(Tables(table, fold_of == fold, None), recipe, loss, context)
        logits[found.rows], readable[found.rows] = found.logits, True
    rows = np.flatnonzero(readable)
    return OutOfFold(rows, logits[rows])


def _score_fold(tables: Tables, recipe: Recipe, loss: Loss, context: RunContext) -> OutOfFold:
    """Train on the images that are not held out, and score those that are."""
    plan = RunPlan(tables.table.source, None, recipe)
    network = first_network(plan, tables.table.classes, context)
    batches = make_batches(network, tables, recipe, context)
    if batches.held_out is None:
        raise DataError(f"{tables.table.source}: a fold has no labelled image. Choose fewer folds.")
    network.to(context.device)
    module, forward = trained_part(network, recipe)
    fit(
        module,
        choose_task(recipe, forward, loss_with_unknown(recipe, loss, tables), network.head),
        batches.learn,
        create_optimiser(module, recipe.optimiser),
        recipe.training,
        recipe.optimiser,
        validate=dict,
        store=CheckpointStore(context.out, "fold"),
        context=context,
    )
    progress = context.progress("scoring the fold")
    scored = score_batches(forward, batches.held_out, folder=context.out, device=context.device, progress=progress)
    readable = batches.contents.any(axis=1)
    return OutOfFold(np.flatnonzero(tables.held_out & readable), scored.logits)
