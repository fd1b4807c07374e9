"""All metrics that papers report for a tagger, from one call."""

from typing import Any

import numpy as np

from tagloom.errors import DataError
from tagloom.metrics.blocks import Array, Known, Targets, as_arrays, check_shapes, working_dtype
from tagloom.metrics.precision_recall import count_top_k, precision_and_recall, top1_accuracy
from tagloom.metrics.ranking import Column, average_of, measure_columns
from tagloom.recipe.names import Task


def score(
    scores: Array,
    targets: Targets,
    known: Known = None,
    threshold: float | Array = 0.5,
    top_k: int = 3,
    *,
    task: Task = "multi",
) -> dict[str, Any]:
    """Measure scores against the truth. All metrics are in percent, as plain Python numbers that JSON can hold.

    Args:
        scores: `(n, N)` probabilities; arrays, or tensors on the CPU. For mAP and AP only their order matters.
        targets: `(n, N)`, 0 or 1, dense or sparse.
        known: `(n, N)` bool; unknown pairs count nowhere, neither in a ranking nor in a top k.
        threshold: One number, or `(N,)` with one per class. A class is predicted where its score is above it.
        top_k: How many classes an image may get in the metrics with the suffix.
        task: "single" adds "top1", for data with exactly one label per image.

    Returns:
        "mAP", the mean of AP over the classes that have a positive; "CP", "CR", "CF1", "OP", "OR", "OF1" above the
        threshold; the same with the suffix "_top3" (or what `top_k` says), where a class must be above the threshold
        and in the image's top 3; "AP", a list with None for a class without a positive; "classes_without_positive",
        their indices; "images", the number of images; "top1", see `top1_accuracy`.

    Raises:
        DataError: For shapes that do not agree, a score that is not a number, or no positive at all.

    >>> result = score(np.array([[0.9, 0.6], [0.8, 0.7], [0.7, 0.1]]), np.array([[1, 0], [0, 0], [1, 0]]))
    >>> print(f"{result['mAP']:.1f} {result['CF1']:.1f} {result['OF1']:.1f} {result['classes_without_positive']}")
    83.3 80.0 57.1 [1]
    """
    scores, targets, known = as_arrays(scores, targets, known)
    images, classes = check_shapes(scores, targets, known)
    limits = _limits(threshold, scores, classes)
    average = average_of("non-interpolated")

    def measure(column: Column, index: int) -> tuple[float, int, int, int]:
        limit = limits[index]
        hits, predicted = column.positives_over(limit), column.images_over(limit)
        return average(column), int(hits), int(predicted), len(column.positives)

    precision, hits, predicted, positives = map(
        np.array, zip(*measure_columns(measure, scores, targets, known), strict=True)
    )
    absent = np.flatnonzero(positives == 0).tolist()
    if len(absent) == classes:
        raise DataError("no class has a known positive, so there is nothing to measure. Check the table's labels.")
    top_hits, top_predicted, _ = count_top_k(scores, targets, known, top_k, limits)
    top = precision_and_recall(top_hits, top_predicted, positives)
    return {
        "mAP": 100 * float(np.nanmean(precision)),
        **precision_and_recall(hits, predicted, positives),
        **{f"{name}_top{top_k}": value for name, value in top.items()},
        "AP": [None if np.isnan(value) else 100 * value for value in precision.tolist()],
        "classes_without_positive": absent,
        "images": images,
        # Every class is a candidate here, known or not: the one label of an image rules out all others.
        **({"top1": top1_accuracy(scores, targets)} if task == "single" else {}),
    }


def _limits(threshold: float | Array, scores: Array, classes: int) -> Array:
    """Give thresholds `(N,)` in the scores' precision, so that a score read back from a file is not above itself."""
    given = np.asarray(threshold)
    if given.shape not in ((), (classes,)) or np.isnan(given).any():
        raise DataError(
            f"threshold has shape {given.shape} or holds NaN: give one number, or one for each of {classes} classes."
        )
    return np.broadcast_to(given.astype(working_dtype(scores)), classes)
