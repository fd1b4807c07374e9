"""Learning classes whose absence nobody states, from positives and unknown pairs: the ways of `unknown` in a recipe."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array
from torch import nn

from tagloom.data.table import LabelTable, pairs_at
from tagloom.errors import RecipeError
from tagloom.losses import Loss, create_loss, expected_positives_loss
from tagloom.recipe import Recipe
from tagloom.training.checkpoint import CheckpointStore
from tagloom.training.context import RunContext
from tagloom.training.features.batches import Labels
from tagloom.training.features.prepare import RunBatches
from tagloom.training.loop import fit
from tagloom.training.optimiser import create_optimiser
from tagloom.training.tables import Tables
from tagloom.training.tasks.supervised import Forward, Task
from tagloom.training.validation import score_rows


def loss_with_unknown(recipe: Recipe, loss: Loss, tables: Tables) -> Loss:
    """Give the loss of a run: the recipe's, or one that also learns from unknown pairs of classes without negatives.

    Args:
        recipe: Its part `unknown` says how.
        loss: The recipe's loss, which leaves unknown pairs out or gives all of them one weight.
        tables: The run's.
    """
    silent, settings = tables.silent, recipe.unknown
    if settings.learn_as == "nothing" or recipe.activation == "softmax" or not silent.any():
        return loss
    if recipe.words.random_queries or recipe.words.labels_per_step:
        raise RecipeError(
            f"{int(silent.sum())} classes have hardly a known negative, so unknown pairs count differently from class "
            "to class, while words.random_queries and words.labels_per_step change the labels of a step. Set both to "
            "0, or unknown.learn_as=nothing with loss.options.unknown_weight=0.3."
        )
    if settings.learn_as == "expected-positives":
        expected = settings.labels_per_image or known_labels_per_image(tables, silent)
        return expected_positives_loss(loss, torch.from_numpy(silent), expected, settings.weight)
    everywhere = np.broadcast_to(recipe.loss.options.get("unknown_weight", 0.0), silent.shape)
    weights = np.where(silent, np.maximum(everywhere, settings.weight), everywhere).tolist()
    return create_loss(recipe.loss.name, **{**recipe.loss.options, "unknown_weight": weights})


def known_labels_per_image(tables: Tables, columns: NDArray[np.bool_]) -> float:
    """Count the known labels of some classes, (classes,) bool, on the average image to learn from."""
    learned = tables.table.positive[~tables.held_out]
    return float(learned.sum(axis=0)[columns].sum() / max(learned.shape[0], 1))


def after_first_round(
    module: nn.Module,
    forward: Forward,
    task: Task,
    batches: RunBatches,
    tables: Tables,
    recipe: Recipe,
    store: CheckpointStore,
    context: RunContext,
) -> None:
    """Train a first round, and complete the labels to learn from with it. The module is left as it was.

    A resumed run repeats what it has forgotten of the first round: everything in it follows from the seed.
    """
    begun = deepcopy(module.state_dict())
    context.log.say("[dim]first round, for pseudo-labels[/]")
    training = replace(recipe.training, select="last", patience=0)
    inner = CheckpointStore(store.folder, store.identity)  # removed with the run's own
    optimiser = create_optimiser(module, recipe.optimiser)
    fit(
        module,
        task,
        batches.learn,
        optimiser,
        training,
        recipe.optimiser,
        validate=dict,
        store=inner,
        context=context,
    )
    read, logits = score_rows(
        forward,
        batches.learn,
        folder=context.out,
        device=context.device,
        world=context.world,
        progress=context.progress("scoring training images"),
    )
    module.load_state_dict(begun)
    table = batches.learn.labels.table

    def find() -> list[tuple[int, int]]:
        pairs = pseudo_labels(table.select(read), logits, tables.silent)  # an image may have vanished meanwhile
        return [(int(read[row]), column) for row, column in pairs]

    found = context.world.from_first(find)
    context.log.event("pseudo_labels", found=len(found))
    context.log.say(f"[dim]second round, with {len(found):,} pseudo-labels[/]")
    batches.learn.labels = Labels(with_positives(table, found))


def pseudo_labels(table: LabelTable, logits: NDArray[np.float32], columns: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Find the unknown pairs that score above the median known positive of their class.

    Where labels are missing by chance, half of the missing ones score above the median of the others.

    Args:
        table: What was trained on.
        logits: (images, classes), of the same images.
        columns: (classes,) bool, the classes to complete.

    Returns:
        The row and column of each.
    """
    found: list[tuple[int, int]] = []
    positives = table.positive.tocsc()
    exceptions = csr_array(table.positive.shape, dtype=np.bool_) if table.exceptions is None else table.exceptions
    excepted = exceptions.tocsc()
    for column in np.flatnonzero(columns).tolist():
        positive = _listed(positives, column)
        if len(positive):
            values = np.ascontiguousarray(logits[:, column])
            unknown = np.full(len(table), table.unlisted == "unknown")
            unknown[_listed(excepted, column)] = table.unlisted == "negative"
            unknown[positive] = False
            high = np.flatnonzero(unknown & (values > np.median(values[positive])))
            found.extend((row, column) for row in high.tolist())
    return found


def with_positives(table: LabelTable, pairs: Sequence[tuple[int, int]]) -> LabelTable:
    """Give a table in which some unknown pairs, by row and column, are positive."""
    if not pairs:
        return table
    rows, columns = np.array(pairs).T
    gained = pairs_at(rows, columns, table.positive.shape)
    exceptions = table.exceptions
    if exceptions is not None and table.unlisted == "negative":
        exceptions = csr_array(exceptions > gained)
    return replace(table, positive=csr_array(table.positive + gained), exceptions=exceptions)


def _listed(pairs: "csc_array[np.bool_]", column: int) -> NDArray[np.int32]:
    """Give the rows that a matrix lists for a class."""
    return np.asarray(pairs.indices[pairs.indptr[column] : pairs.indptr[column + 1]])
