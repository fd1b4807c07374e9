"""The paired bootstrap: how much average precision would change with other images, for many labels at once."""

import numpy as np
from numpy.typing import NDArray

_BLOCK_ELEMENTS = 8_000_000  # images x resamples at a time: 8 MB of counts, however large the table


def resampled_differences(
    first: NDArray[np.floating],
    second: NDArray[np.floating],
    positive: NDArray[np.bool_],
    known: NDArray[np.bool_] | None,
    resamples: int,
    seed: int,
) -> NDArray[np.float64]:
    """Compute differences of AP `(labels, resamples)` on images drawn with replacement, the same for both taggers.

    Images are drawn, not (image, label) pairs, because one hard image affects all its labels at once.
    """
    images, labels = first.shape
    rng = np.random.default_rng(seed)
    blocks = [np.zeros((labels, 0))]
    step = max(1, _BLOCK_ELEMENTS // images)
    for start in range(0, resamples, step):
        draws = [rng.integers(images, size=images) for _ in range(min(step, resamples - start))]
        weights = np.stack([np.bincount(draw, minlength=images).astype(np.uint8) for draw in draws], axis=1)
        block = np.empty((labels, len(draws)))
        for label in range(labels):
            rows = slice(None) if known is None or known[:, label].all() else known[:, label]
            seen, flags = weights[rows], positive[rows, label]
            block[label] = weighted_average_precision(second[rows, label], flags, seen)
            block[label] -= weighted_average_precision(first[rows, label], flags, seen)
        blocks.append(block)
    return np.concatenate(blocks, axis=1)


def weighted_average_precision(
    scores: NDArray[np.floating], positive: NDArray[np.bool_], weights: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Compute the average precision of one class when image i counts `weights[i]` times, for many weightings at once.

    Args:
        scores: `(n,)`.
        positive: `(n,)`, at least one of them True.
        weights: `(n, R)`: how often each image counts in each of R weightings.

    Returns:
        `(R,)` from 0 to 1; NaN where no positive counts.
    """
    order = np.argsort(-scores, kind="stable")
    levels = -np.unique(scores[positive])[::-1]  # negated, so that they and the ranking below ascend
    ranked = -scores[order]
    # Weights between two levels are summed first, so that only one sum per level is left to accumulate.
    images = np.cumsum(_sums_up_to(levels, ranked, weights, order), axis=0)
    of_positives = positive[order]
    found = _sums_up_to(levels, ranked[of_positives], weights, order[of_positives])
    reached = np.cumsum(found, axis=0)
    total = reached[-1]
    average = (found * (reached / np.maximum(images, 1))).sum(axis=0) / np.maximum(total, 1)
    return np.where(total > 0, average, np.nan)


def _sums_up_to(
    levels: NDArray[np.floating],
    ranked: NDArray[np.floating],
    weights: NDArray[np.integer],
    order: NDArray[np.intp],
) -> NDArray[np.int32]:
    """Sum the weights `(n, R)` of the images in `order` from one level of the ascending ranking to the next."""
    ends = np.searchsorted(ranked, levels, "right")
    starts = np.concatenate([[0], ends[:-1]])
    sums: NDArray[np.int32] = np.add.reduceat(weights[order[: ends[-1]]], starts, axis=0, dtype=np.int32)
    return sums
