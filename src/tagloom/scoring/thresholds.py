"""One threshold per class, chosen on labelled images: a class is tagged where its probability is over its threshold."""

from typing import Literal, TypeAlias

import numpy as np

from tagloom.errors import DataError, RecipeError, unknown_name
from tagloom.metrics.blocks import Array, Targets, check_shapes
from tagloom.metrics.ranking import Column, measure_columns

Aim: TypeAlias = Literal["f1", "precision", "fixed"]

NEVER = 1.0  # no probability is over it
# Thresholds that are tried for all classes together: evenly spaced logits from −12 to 12, as probabilities.
SHARED_GRID = (1 / (1 + np.exp(-np.linspace(-12, 12, 241)))).astype(np.float32)


def choose_thresholds(
    scores: Array,
    targets: Targets,
    known: Array | None = None,
    *,
    aim: Aim = "f1",
    value: float | None = None,
    prior_positives: float = 3.0,
) -> Array:
    """Choose the threshold of every class.

    Cut points lie halfway between neighbouring scores of a class, and all of them are considered.

    "f1" takes the best F1. A best cut read off a handful of positives is mostly chance, so it is drawn towards the one
    threshold that serves all classes best (the highest mean F1): on the scale of logits, the class's own cut weighs as
    much as it has positives and the shared one as much as `prior_positives`. On simulated classes that beat both the
    own cut and a fallback below some number of positives. A class without a positive gets the shared threshold.

    "precision" takes the most recall among the cuts whose precision is at least `value`; where none is, the cut of the
    highest precision. A class without a positive gets `NEVER`: nothing speaks for tagging it.

    "fixed" takes `value` for all.

    Args:
        scores: `(n, N)` probabilities, compared in float32. One of exactly 0 is never tagged.
        targets: `(n, N)`, 0 or 1, dense or sparse.
        known: `(n, N)` bool; pairs that are not known are left out.
        aim: What to choose for.
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
            raise RecipeError(f"thresholds for the best F1 take no value, but {value} was given: leave it out.")
        return _for_f1(_float32(scores), targets, known, prior_positives)
    if value is None or not 0 <= value <= 1:
        raise RecipeError(f"thresholds with the aim '{aim}' need a value from 0 to 1, but it is {value}.")
    if aim == "fixed":
        return np.full(classes, value, np.float32)
    cuts = measure_columns(lambda column, _: _precise_cut(column, value), _float32(scores), targets, known)
    return np.array(cuts, np.float32)


def _for_f1(scores: Array, targets: Targets, known: Array | None, prior_positives: float) -> Array:
    measured = measure_columns(lambda column, _: (_best_f1_cut(column), _f1_over(column)), scores, targets, known)
    own = np.array([cut for (cut, _), _ in measured])
    positives = np.array([count for (_, count), _ in measured])
    curves = [curve for _, curve in measured if curve is not None]
    if not curves:
        raise DataError("no class has a known positive, so no threshold can be chosen. Use the aim 'fixed' instead.")
    mean_f1 = np.mean(curves, axis=0)
    best = np.flatnonzero(mean_f1 == mean_f1.max())
    shared = SHARED_GRID[best[len(best) // 2]]  # the middle of a plateau is the safest place on it
    if prior_positives > 0:
        drawn = (positives * _logit(own) + prior_positives * _logit(shared)) / (positives + prior_positives)
        own = 1 / (1 + np.exp(-drawn))
    return np.where(positives > 0, own, shared).astype(np.float32)


def _best_f1_cut(column: Column) -> tuple[float, int]:
    """The cut with the best F1, of equal ones the highest, and how many positives speak for it; NaN and 0 if none."""
    found, images, candidates = _cuts_below_positives(column)
    if not len(candidates):
        return float("nan"), 0
    f1 = 2 * found / (images + len(column.positives))
    best = len(f1) - 1 - int(f1[::-1].argmax())
    return _halfway_below(column, candidates[best]), len(column.positives)


def _precise_cut(column: Column, floor: float) -> float:
    """The lowest cut with precision `floor`, or the one with the most precision."""
    found, images, candidates = _cuts_below_positives(column)
    if not len(candidates):
        return NEVER
    precision = found / images
    enough = precision >= floor
    best = int(enough.argmax() if enough.any() else precision.argmax())
    return _halfway_below(column, candidates[best])


def _cuts_below_positives(column: Column) -> tuple[Array, Array, Array]:
    """Positives and images over the cut just below each positive, with that positive's score, ascending.

    A cut further down, below some negatives too, tags these and no positive more: it is never better.
    """
    _refuse_non_probabilities(column)
    candidates = column.positives[column.positives > 0]
    return column.positives_from(candidates), column.images_from(candidates), candidates


def _halfway_below(column: Column, candidate: float) -> float:
    """Between a score and the next lower one of a known image; in float32 never as high as the score itself."""
    place = int(np.searchsorted(column.ranked, candidate, "left"))
    lower = column.ranked[place - 1] if place > column.unknown else np.float32(0)
    middle = np.float32((float(lower) + float(candidate)) / 2)
    return float(middle if middle < candidate else lower)


def _f1_over(column: Column) -> Array | None:
    """F1 over each threshold of the shared grid, or None without a positive."""
    if not len(column.positives):
        return None
    found, images = column.positives_over(SHARED_GRID), column.images_over(SHARED_GRID)
    return np.asarray(2 * found / (images + len(column.positives)))


def _refuse_non_probabilities(column: Column) -> None:
    seen = column.ranked[column.unknown :]
    if len(seen) and not (seen[0] >= 0 and seen[-1] <= 1):
        raise DataError(
            f"scores from {seen[0]:g} to {seen[-1]:g} were given, but thresholds are for probabilities, from 0 to 1:"
            " put logits through the sigmoid first."
        )


def _float32(scores: Array) -> Array:
    return scores if scores.dtype in (np.float16, np.float32) else scores.astype(np.float32)


def _logit(probability: Array) -> Array:
    clipped = np.clip(np.asarray(probability, np.float64), 1e-6, 1 - 1e-6)
    return np.log(clipped) - np.log1p(-clipped)
