"""Precision, recall and F1 of tags: above a threshold, in the top k, or both. All in percent."""

import numpy as np

from tagloom.errors import DataError
from tagloom.metrics.blocks import (
    Array,
    Known,
    Targets,
    check_shapes,
    flags_by_image,
    in_blocks,
    scores_by_image,
    sliced_by_image,
)

PRECISION_RECALL_NAMES = ("CP", "CR", "CF1", "OP", "OR", "OF1")


def precision_and_recall(hits: Array, predicted: Array, positives: Array) -> dict[str, float]:
    """Compute averages per class (C) and overall (O) from counts per class, each `(N,)`.

    CP and CR are means over the classes that have a positive. Such a class without a prediction has precision 0, as in
    the papers' code. CF1 is the harmonic mean of CP and CR, not the mean of F1s. OP, OR and OF1 count every known pair
    once, so false positives of classes without a positive lower OP.

    >>> precision_and_recall(np.array([1, 0]), np.array([1, 0]), np.array([2, 2]))
    {'CP': 50.0, 'CR': 25.0, 'CF1': 33.333333333333336, 'OP': 100.0, 'OR': 25.0, 'OF1': 40.0}
    """
    present = positives > 0
    class_precision = 100 * float(np.mean(hits[present] / np.maximum(predicted[present], 1)))
    class_recall = 100 * float(np.mean(hits[present] / positives[present]))
    precision = 100 * int(hits.sum()) / max(int(predicted.sum()), 1)
    recall = 100 * int(hits.sum()) / int(positives.sum())
    per_class = class_precision, class_recall, _harmonic_mean(class_precision, class_recall)
    overall = precision, recall, _harmonic_mean(precision, recall)
    return dict(zip(PRECISION_RECALL_NAMES, (*per_class, *overall), strict=True))


def count_top_k(
    scores: Array, targets: Targets, known: Known, k: int, over: Array | None = None
) -> tuple[Array, Array, Array]:
    """Choose the k best known classes of every image, the first of equal scores, and count per class.

    Args:
        scores: `(n, N)`.
        targets: `(n, N)`, 0 or 1, dense or sparse.
        known: `(n, N)` bool; unknown classes are never chosen.
        k: Choices per image; an image with fewer known classes chooses all of them.
        over: `(N,)` thresholds that the score of a chosen class must also exceed; None for no such condition.

    Returns:
        Hits, choices and positives, each `(N,)` integers.
    """
    images, classes = check_shapes(scores, targets, known)
    if k < 1:
        raise DataError(f"cannot take the top {k} classes of an image: give 1 or more.")
    k = min(k, classes)
    targets, known = sliced_by_image(targets), sliced_by_image(known)

    def block(start: int, stop: int) -> Array:
        left = scores_by_image(scores, start, stop)
        positive = flags_by_image(targets, slice(start, stop))
        # From here on −∞ means "not to be chosen".
        np.maximum(left, np.finfo(left.dtype).min, out=left)
        if known is not None:
            seen = flags_by_image(known, slice(start, stop))
            positive = positive & seen
            left[~seen] = -np.inf
        rows = np.arange(stop - start)
        counts = np.zeros((3, classes), int)
        counts[2] = np.count_nonzero(positive, axis=0)
        for _ in range(k):  # k maxima: faster than a partition for every usual k, and ties are settled
            best = left.argmax(axis=1)
            value = left[rows, best]
            chosen = value > (-np.inf if over is None else over[best])
            counts[0] += np.bincount(best[chosen & positive[rows, best]], minlength=classes)
            counts[1] += np.bincount(best[chosen], minlength=classes)
            left[rows, best] = -np.inf
        return counts

    hits, chosen, positives = sum(in_blocks(block, images, classes), start=np.zeros((3, classes), int))
    return hits, chosen, positives


def f1_at_k(scores: Array, targets: Targets, k: int, known: Known = None) -> dict[str, float]:
    """Compute precision, recall and F1 when every image gets exactly its k best classes: F1@K of zero-shot papers.

    Counts are summed over all images and classes before dividing. Unknown classes are never chosen; an image with
    fewer than k known classes gets all of them. Arguments as in `count_top_k`.

    >>> f1_at_k(np.array([[0.9, 0.1, 0.2]]), np.array([[1, 1, 0]]), k=2)
    {'P': 50.0, 'R': 50.0, 'F1': 50.0}
    """
    hits, chosen, positives = (int(count.sum()) for count in count_top_k(scores, targets, known, k))
    if not positives:
        raise DataError("no image has a known positive, so recall is not defined. Check the table's labels.")
    precision, recall = 100 * hits / max(chosen, 1), 100 * hits / positives
    return {"P": precision, "R": recall, "F1": _harmonic_mean(precision, recall)}


def top1_accuracy(scores: Array, targets: Targets, known: Known = None) -> float:
    """Compute the percentage of images whose best-scored known class is positive, among images that have a positive.

    For single-label data. Arguments as in `count_top_k`.

    >>> top1_accuracy(np.array([[0.9, 0.1], [0.3, 0.6]]), np.array([[1, 0], [1, 0]]))
    50.0
    """
    hits, _, _ = count_top_k(scores, targets, known, 1)
    targets, known = sliced_by_image(targets), sliced_by_image(known)

    def block(start: int, stop: int) -> int:
        positive = flags_by_image(targets, slice(start, stop))
        if known is not None:
            positive = positive & flags_by_image(known, slice(start, stop))
        return int(np.count_nonzero(positive.any(axis=1)))

    labelled = sum(in_blocks(block, *scores.shape))
    if not labelled:
        raise DataError("no image has a known positive, so accuracy is not defined. Check the table's labels.")
    return 100 * int(hits.sum()) / labelled


def _harmonic_mean(a: float, b: float) -> float:
    return 2 * a * b / (a + b) if a + b else 0.0
