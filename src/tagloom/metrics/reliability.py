"""Whether scores are probabilities: of the pairs that score about 0.7, are about seven in ten true?

Scores are sorted into bins, and the mean score of each bin is compared with its share of positives. The expected
calibration error (ECE) is the mean distance between the two, weighted by the number of pairs in each bin. Bins of equal
width are usual. But with many labels nearly all scores are close to 0, so one bin holds nearly everything; bins of
equal mass, with the same number of pairs in each, look closer. With few images every bin is off by chance, so ECE is
never 0.
"""

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from tagloom.errors import DataError, unknown_name
from tagloom.metrics.blocks import (
    Array,
    Known,
    Targets,
    as_arrays,
    check_shapes,
    flags_by_image,
    in_blocks,
    scores_by_image,
    sliced_by_image,
)
from tagloom.metrics.ranking import Column, measure_columns

Binning: TypeAlias = Literal["equal-width", "equal-mass"]

BINNINGS: tuple[Binning, ...] = ("equal-width", "equal-mass")
MAX_SAMPLE = 4_000_000  # pairs from which the shared bins of equal mass are computed


class Bins(NamedTuple):
    """What fell into each bin, each (B,).

    Attributes:
        pairs: How many known pairs.
        positives: How many of them are positive.
        score_sum: The sum of their scores.
    """

    pairs: Array
    positives: Array
    score_sum: Array


class Curve(NamedTuple):
    """A reliability curve: the bins that hold anything, each (B,), by ascending score.

    Attributes:
        pairs: How many known pairs are in it.
        score: Their mean score.
        frequency: The share of positives among them.
    """

    pairs: Array
    score: Array
    frequency: Array

    @property
    def error(self) -> float:
        """The expected calibration error, from 0 to 1; NaN without a pair."""
        count = self.pairs.sum()
        return float((self.pairs * np.abs(self.score - self.frequency)).sum() / count) if count else float("nan")


def reliability_curves(
    scores: Array, targets: Targets, known: Known = None, *, bins: int = 15, binning: Binning = "equal-width"
) -> tuple[Curve, list[Curve]]:
    """Give the reliability curve of all known pairs together, and of every label.

    Args:
        scores: `(n, N)` probabilities.
        targets: `(n, N)`, 0 or 1, dense or sparse.
        known: `(n, N)` bool; unknown pairs are left out.
        bins: How many bins. A score on an edge belongs to the lower bin; equal scores share a bin.
        binning: "equal-width", or "equal-mass" for the same number of pairs in every bin.

    >>> curve, _ = reliability_curves(np.array([[0.2], [0.2], [0.8], [0.6]]), np.array([[0], [1], [1], [1]]), bins=2)
    >>> curve.score.round(2), curve.frequency, round(curve.error, 2)
    (array([0.2, 0.7]), array([0.5, 1. ]), 0.3)
    """
    scores, targets, known = as_arrays(scores, targets, known)
    check_shapes(scores, targets, known)
    if binning not in BINNINGS:
        raise DataError(unknown_name("kind of bins", binning, BINNINGS))
    if bins < 1:
        raise DataError(f"bins is {bins}; give 1 or more.")
    even = np.linspace(0, 1, bins + 1)
    shared = even if binning == "equal-width" else np.percentile(_sample(scores, known), 100 * even)

    def measure(column: Column, index: int) -> tuple[Bins, Curve]:
        seen = column.probabilities("reliability curves")
        own = even if binning == "equal-width" or not len(seen) else np.percentile(seen, 100 * even)
        return _fill(column, shared), _curve(_fill(column, own))

    measured = measure_columns(measure, scores, targets, known)
    together = Bins(*(np.sum(part, axis=0) for part in zip(*(filled for filled, _ in measured), strict=True)))
    return _curve(together), [curve for _, curve in measured]


def log_loss(scores: Array, targets: Targets, known: Known = None) -> float:
    """Compute the mean negative log-likelihood of all known pairs, in nats; scores are clipped to 1e-7 from 0 and 1."""
    targets, known = sliced_by_image(targets), sliced_by_image(known)

    def block(start: int, stop: int) -> tuple[float, int]:
        rows = slice(start, stop)
        values, positive = scores_by_image(scores, start, stop), flags_by_image(targets, rows)
        if known is not None:
            seen = flags_by_image(known, rows)
            values, positive = values[seen], positive[seen]
        likely = np.clip(np.asarray(values, np.float64), 1e-7, 1 - 1e-7)
        return float(-np.log(np.where(positive, likely, 1 - likely)).sum()), positive.size

    losses, pairs = map(sum, zip(*in_blocks(block, *scores.shape), strict=True))
    return float(losses / pairs) if pairs else float("nan")


def calibration_figures(scores: Array, targets: Targets, known: Known = None, *, bins: int = 15) -> dict[str, Any]:
    """Measure how far scores are from probabilities, in plain numbers that JSON can hold.

    Returns:
        "log_loss" in nats, and for each kind of bins ("equal-width", "equal-mass"), in percent: "ECE" over all known
        pairs, "label_ECE" of each label (None without a known pair) and "mean_label_ECE"; the curve of all pairs as
        "pairs", "score" and "frequency", one value for each bin that is not empty.
    """
    figures: dict[str, Any] = {"log_loss": log_loss(scores, targets, known)}
    for binning in BINNINGS:
        curve, labels = reliability_curves(scores, targets, known, bins=bins, binning=binning)
        errors = np.array([label.error for label in labels])
        figures[binning] = {
            "ECE": 100 * curve.error,
            "mean_label_ECE": 100 * float(np.nanmean(errors)),
            "label_ECE": [None if np.isnan(error) else 100 * error for error in errors.tolist()],
            **{name: values.tolist() for name, values in curve._asdict().items()},
        }
    return figures


def _fill(column: Column, edges: Array) -> Bins:
    """Count a label's known pairs between edges (B + 1,); the first and last bin also take what lies outside."""
    seen = column.probabilities("reliability curves")
    ends = np.searchsorted(seen, edges[1:-1], "right")
    found = np.searchsorted(column.positives, edges[1:-1], "right")
    sums = np.concatenate([[0.0], np.cumsum(seen, dtype=np.float64)])
    return Bins(
        np.diff(ends, prepend=0, append=len(seen)),
        np.diff(found, prepend=0, append=len(column.positives)),
        np.diff(sums[ends], prepend=0.0, append=sums[-1]),
    )


def _curve(filled: Bins) -> Curve:
    full = filled.pairs > 0
    pairs = filled.pairs[full]
    return Curve(pairs, filled.score_sum[full] / pairs, filled.positives[full] / pairs)


def _sample(scores: Array, known: Known) -> Array:
    """Give the known scores of evenly spaced images: all of them, unless there are too many."""
    step = -(-scores.size // MAX_SAMPLE)
    chosen = scores[::step]
    seen = chosen.ravel() if known is None else chosen[flags_by_image(known, slice(None, None, step))]
    if not len(seen):
        raise DataError("no pair is known, so there is nothing to measure. Check the table's labels.")
    return seen
