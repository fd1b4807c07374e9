"""One threshold per class, chosen on labelled images: a class becomes a tag where its score is above its threshold."""

from typing import Literal, TypeAlias

import numpy as np

from tagloom.errors import DataError, RecipeError, unknown_name
from tagloom.metrics.blocks import Array, Known, Targets, check_shapes
from tagloom.metrics.ranking import Column, measure_columns

Aim: TypeAlias = Literal["f1", "precision", "fixed"]

NEVER = 1.0  # no score is above it
# Thresholds tried for all classes together: evenly spaced logits from −12 to 12, as probabilities.
SHARED_GRID = (1 / (1 + np.exp(-np.linspace(-12, 12, 241)))).astype(np.float32)


def choose_thresholds(
    scores: Array,
    targets: Targets,
    known: Known = None,
    *,
    aim: Aim = "f1",
    value: float | None = None,
    prior_positives: float = 3.0,
) -> Array:
    """Choose the threshold of every class.

    The candidates are all cuts halfway between neighbouring scores of a class.

    "f1" takes the cut with the best F1. With a handful of positives that cut is mostly chance, so it is pulled towards
    the one threshold that is best for all classes (the highest mean F1). The result is a weighted mean of logits: the
    class's own cut weighs as much as the class has positives, the shared threshold weighs `prior_positives`. On
    simulated classes this beat both the own cut and a fallback below some number of positives. A class without a
    positive gets the shared threshold.

    "precision" takes the cut with the most recall whose precision is at least `value`, or the cut with the highest
    precision if there is no such cut. A class without a positive gets `NEVER`.

    "fixed" takes `value` for all classes.

    Args:
        scores: `(n, N)` probabilities, compared in float32. A score of exactly 0 is never tagged.
        targets: `(n, N)`, 0 or 1, dense or sparse.
        known: `(n, N)` bool; unknown pairs are left out.
        aim: "f1", "precision" or "fixed".
        value: The least precision, or the fixed threshold, from 0 to 1.
        prior_positives: For "f1": 0 gives every class that has a positive exactly its own best cut.

    Returns:
        `(N,)` float32, from 0 to 1.

    >>> choose_thresholds(np.array([[0.9], [0.8], [0.3], [0.1]]), np.array([[1], [1], [0], [0]]), prior_positives=0)
    array([0.55], dtype=float32)
    """
    _, classes = check_shapes(scores, targets, known)
    if aim not in ("f1", "precision", "fixed"):
        raise RecipeError(unknown_name("aim of thresholds", aim, ("f1", "precision", "fixed")))
    if aim == "f1":
        if value is not None:
            raise RecipeError(f"thresholds for the best F1 take no value, but it is {value}: leave it out.")
        return _for_f1(float32_scores(scores), targets, known, prior_positives)
    if value is None or not 0 <= value <= 1:
        raise RecipeError(f"thresholds with the aim '{aim}' need a value from 0 to 1, but it is {value}.")
    if aim == "fixed":
        return np.full(classes, value, np.float32)
    cuts = measure_columns(lambda column, _: _precise_cut(column, value), float32_scores(scores), targets, known)
    return np.array(cuts, np.float32)


def _for_f1(scores: Array, targets: Targets, known: Known, prior_positives: float) -> Array:
    measured = measure_columns(lambda column, _: (_best_f1_cut(column), _f1_over(column)), scores, targets, known)
    own = np.array([cut for (cut, _), _ in measured])
    positives = np.array([count for (_, count), _ in measured])
    curves = [curve for _, curve in measured if curve is not None]
    if not curves:
        raise DataError("no class has a known positive, so no threshold can be chosen. Use the aim 'fixed' instead.")
    mean_f1 = np.mean(curves, axis=0)
    best = np.flatnonzero(mean_f1 == mean_f1.max())
    shared = SHARED_GRID[best[len(best) // 2]]  # the middle of a plateau is the safest point on it
    if prior_positives > 0:
        drawn = (positives * _logit(own) + prior_positives * _logit(shared)) / (positives + prior_positives)
        own = 1 / (1 + np.exp(-drawn))
    return np.where(positives > 0, own, shared).astype(np.float32)


def _best_f1_cut(column: Column) -> tuple[float, int]:
    """Give the cut with the best F1, the highest of equal ones, and the number of positives; NaN and 0 without one."""
    found, images, candidates = _cuts_below_positives(column)
    if not len(candidates):
        return float("nan"), 0
    f1 = 2 * found / (images + len(column.positives))
    best = len(f1) - 1 - int(f1[::-1].argmax())
    return halfway_below(column, candidates[best]), len(column.positives)


def _precise_cut(column: Column, floor: float) -> float:
    """Give the lowest cut with precision `floor`, or the one with the highest precision."""
    found, images, candidates = _cuts_below_positives(column)
    if not len(candidates):
        return NEVER
    precision = found / images
    enough = precision >= floor
    best = int(enough.argmax() if enough.any() else precision.argmax())
    return halfway_below(column, candidates[best])


def _cuts_below_positives(column: Column) -> tuple[Array, Array, Array]:
    """Count positives and images above the cut just below each positive, with that positive's score, ascending.

    A lower cut that passes more negatives and no further positive is never better.
    """
    column.probabilities("thresholds")  # refuses anything else
    candidates = column.positives[column.positives > 0]
    return column.positives_from(candidates), column.images_from(candidates), candidates


def halfway_below(column: Column, candidate: float) -> float:
    """Give the middle of a score and the next lower one of a known image; in float32 always below the score itself."""
    rank = int(np.searchsorted(column.ranked, candidate, "left"))
    lower = column.ranked[rank - 1] if rank > column.unknown else np.float32(0)
    middle = np.float32((float(lower) + float(candidate)) / 2)
    return float(middle if middle < candidate else lower)


def _f1_over(column: Column) -> Array | None:
    """Compute F1 above each threshold of the shared grid; None without a positive."""
    if not len(column.positives):
        return None
    found, images = column.positives_over(SHARED_GRID), column.images_over(SHARED_GRID)
    return np.asarray(2 * found / (images + len(column.positives)))


def float32_scores(scores: Array) -> Array:
    """Give scores in float32, or half of that where they come so."""
    return scores if scores.dtype in (np.float16, np.float32) else scores.astype(np.float32)


def _logit(probability: Array) -> Array:
    clipped = np.clip(np.asarray(probability, np.float64), 1e-6, 1 - 1e-6)
    return np.log(clipped) - np.log1p(-clipped)
