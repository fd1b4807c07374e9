"""Average precision: how high the positives of a class rank among all images."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from tagloom.errors import DataError, unknown_name
from tagloom.metrics.blocks import (
    Array,
    Known,
    Targets,
    check_shapes,
    flags_by_class,
    in_blocks,
    scores_by_class,
    sliced_by_class,
)

T = TypeVar("T")
Kind: TypeAlias = Literal["non-interpolated", "voc-11-point", "interpolated"]


@dataclass(frozen=True, slots=True)
class Column:
    """The sorted scores of one class: all that rankings, thresholds and counts need.

    Sorting plain numbers and searching the positives among them is several times faster than sorting indices, which a
    ranking would need.
    """

    ranked: Array
    """`(n,)` ascending; unknown pairs come first, as −∞."""
    positives: Array
    """`(P,)` ascending: the scores of the known positives."""
    unknown: int
    """How many of `ranked` are unknown."""

    def probabilities(self, user: str) -> Array:
        """Give the known scores, ascending; refuse any that are not from 0 to 1, which `user` needs."""
        known = self.ranked[self.unknown :]
        if len(known) and not (known[0] >= 0 and known[-1] <= 1):
            raise DataError(
                f"scores from {known[0]:g} to {known[-1]:g} were given, but {user} need probabilities, from 0 to 1: "
                "put logits through the sigmoid first."
            )
        return known

    def images_from(self, values: Array) -> Array:
        """Count the known images that score at least each value."""
        return len(self.ranked) - np.maximum(np.searchsorted(self.ranked, values, "left"), self.unknown)

    def images_over(self, values: Array) -> Array:
        """Count the known images that score more than each value."""
        return len(self.ranked) - np.maximum(np.searchsorted(self.ranked, values, "right"), self.unknown)

    def positives_from(self, values: Array) -> Array:
        """Count the positives that score at least each value."""
        return len(self.positives) - np.searchsorted(self.positives, values, "left")

    def positives_over(self, values: Array) -> Array:
        """Count the positives that score more than each value."""
        return len(self.positives) - np.searchsorted(self.positives, values, "right")


def measure_columns(measure: Callable[[Column, int], T], scores: Array, targets: Targets, known: Known) -> list[T]:
    """Call `measure` with the column of every class and its index; N results in class order. Arrays are `(n, N)`."""
    images, classes = check_shapes(scores, targets, known)
    targets, known = sliced_by_class(targets), sliced_by_class(known)

    def block(start: int, stop: int) -> list[T]:
        ranked = scores_by_class(scores, start, stop)
        positive = flags_by_class(targets, start, stop)
        unknown = np.zeros(stop - start, int)
        if known is not None:
            seen = flags_by_class(known, start, stop)
            positive &= seen
            unknown = images - np.count_nonzero(seen, axis=1)
            ranked[~seen] = -np.inf
        positives = [np.sort(line[flags]) for line, flags in zip(ranked, positive, strict=True)]
        ranked.sort(axis=1)
        return [
            measure(Column(ranked[line], positives[line], int(unknown[line])), start + line)
            for line in range(stop - start)
        ]

    return list(chain.from_iterable(in_blocks(block, classes, images)))


def average_precision(scores: Array, targets: Targets, known: Known = None, kind: Kind = "non-interpolated") -> Array:
    """Compute the average precision of every class, from 0 to 1; NaN for a class without a positive.

    Images with equal scores count as one step, so their order in the table does not matter.

    Args:
        scores: `(n, N)`; only their order within a class matters.
        targets: `(n, N)`, 0 or 1, dense or sparse.
        known: `(n, N)` bool, dense or sparse; unknown pairs are left out of the ranking.
        kind: "non-interpolated" is the mean of the precision at every positive, as in scikit-learn;
            "interpolated" takes the best precision from each positive downwards (VOC since 2010);
            "voc-11-point" averages that best precision at recalls 0, 0.1, …, 1 (VOC until 2009).

    Returns:
        `(N,)` float64.

    >>> average_precision(np.array([[0.9], [0.8], [0.7]]), np.array([[1], [0], [1]]))
    array([0.83333333])
    """
    average = average_of(kind)
    return np.array(measure_columns(lambda column, _: average(column), scores, targets, known))


def average_of(kind: str) -> Callable[[Column], float]:
    """Give the function that computes the average precision of a column."""
    if kind not in _AVERAGES:
        raise DataError(unknown_name("kind of average precision", kind, _AVERAGES))
    average = _AVERAGES[kind]

    def of_column(column: Column) -> float:
        if not len(column.positives):
            return float("nan")
        found = column.positives_from(column.positives)
        return average(found / column.images_from(column.positives), found)

    return of_column


def _non_interpolated(precision: Array, found: Array) -> float:
    return float(precision.mean())


def _interpolated(precision: Array, found: Array) -> float:
    return float(np.maximum.accumulate(precision).mean())


def _voc_11_point(precision: Array, found: Array) -> float:
    """`found` falls along the positives. Whole numbers keep a recall of 3/10 from missing the level 0.3 by rounding."""
    reaching = np.count_nonzero(10 * found >= np.arange(11)[:, None] * len(found), axis=1)
    return float(np.maximum.accumulate(precision)[reaching - 1].mean())


# Each takes, for every positive in ascending order of score, its precision and the number of positives from it upwards.
_AVERAGES: dict[str, Callable[[Array, Array], float]] = {
    "non-interpolated": _non_interpolated,
    "interpolated": _interpolated,
    "voc-11-point": _voc_11_point,
}
