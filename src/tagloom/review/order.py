"""Which photo to ask about next: doubtful labels first, then photos that stand for many others.

Asking about the most uncertain photos teaches less than asking at random: they are all alike, full of small things
(docs/results.md has the figures). So photos are put into groups that look alike. Groups without an answer come first,
of these the ones in which most may be wrong, and in a group the photo in its middle (after TypiClust: Hacohen, Dekel
and Weinshall, 2022).
"""

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2, vq
from scipy.linalg import eigh

from tagloom.review.learning import first_logits

DOUBTFUL = 0.9
"""A known label is doubtful if its score is this far from it."""
NEXT = 50
"""Groups beyond those that have an answer: photos to ask about before the order is made again."""
MOST_GROUPS = 600
WIDTH = 64
"""Directions in which photos are told apart."""
_POOL = 5000  # photos by which groups and directions are found
_ROUNDS = 8
_UNSCORED = 0.25  # the possible error of a label without a score: nobody knows


def most_useful_first(
    scores: NDArray[np.float32],
    targets: NDArray[np.bool_],
    known: NDArray[np.bool_],
    rows: NDArray[np.int64],
    points: NDArray[np.float32] | None = None,
    seed: int = 0,
) -> list[int]:
    """Put photos into the order in which answers about them are most useful.

    Args:
        scores: (images, classes), NaN where a label has none.
        targets: (images, classes), whether a label applies.
        known: (images, classes), whether that is known.
        rows: The images to put into order; all others have an answer.
        points: (images, D), which tell alike photos from others, as `compact` gives them; by default the scores do.
        seed: Another seed gives other groups.
    """
    if not len(rows):
        return []
    wrong = possible_errors(scores[rows], targets[rows], known[rows])
    doubt = np.where(known[rows] & ~np.isnan(scores[rows]), wrong, 0).max(1, initial=0)
    doubtful = np.flatnonzero(doubt > DOUBTFUL)
    first = doubtful[np.argsort(-doubt[doubtful], kind="stable")]
    others = np.flatnonzero(doubt <= DOUBTFUL)
    if points is None:
        points = first_logits(scores)
    answered = np.setdiff1d(np.arange(len(scores)), rows)
    rng = np.random.default_rng(seed)
    rest = others[_in_turns(points[rows[others]], points[answered], wrong[others].sum(1), rng)]
    ordered: list[int] = rows[np.concatenate([first, rest])].tolist()
    return ordered


def possible_errors(
    scores: NDArray[np.float32], targets: NDArray[np.bool_], known: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Give how wrong each pair may be, 0 to 1: a known label by how far its score is from it, others at most 0.5."""
    filled = np.nan_to_num(scores)
    found = np.where(known, np.abs(targets - filled), np.minimum(filled, 1 - filled))
    return np.where(np.isnan(scores), np.where(known, 0, _UNSCORED), found).astype(np.float32)


def compact(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Reduce features (n, D) to the directions in which they differ most, (n, `WIDTH` at most)."""
    some = features[np.random.default_rng(0).permutation(len(features))[:_POOL]]
    width, last = min(WIDTH, features.shape[1]), features.shape[1] - 1
    _, directions = eigh(some.T @ some, subset_by_index=[last - width + 1, last])
    reduced: NDArray[np.float32] = features @ directions
    return reduced


def _in_turns(
    points: NDArray[np.float32],
    answered: NDArray[np.float32],
    usefulness: NDArray[np.float32],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Order photos so that groups take turns: those with fewest answers first, of these the most useful in all."""
    if len(points) <= NEXT:
        return np.argsort(-usefulness, kind="stable")
    every = np.concatenate([points, answered])
    centres = _centres(every, min(len(answered) + NEXT, MOST_GROUPS, len(every) // 2), rng)
    group, distance = vq(points, centres)
    answers = np.bincount(vq(answered, centres)[0], minlength=len(centres)) if len(answered) else np.zeros(len(centres))
    worth = np.bincount(group, usefulness, minlength=len(centres))
    place = np.empty(len(centres), np.int64)
    place[np.lexsort((-worth, answers))] = np.arange(len(centres))
    sizes = np.bincount(group, minlength=len(centres))
    turn = np.empty(len(points), np.int64)
    turn[np.lexsort((distance, group))] = np.arange(len(points)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.lexsort((place[group], turn))


def _centres(points: NDArray[np.float32], count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Find the centres of groups of photos that look alike, by k-means on some of them."""
    pool = points[rng.permutation(len(points))[:_POOL]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty group does no harm
        centres, _ = kmeans2(pool, _spread(pool, count, rng), iter=_ROUNDS, minit="matrix")
    return centres


def _spread(pool: NDArray[np.float32], count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw points that lie apart, each with a chance in proportion to its squared distance from those drawn before.

    This is k-means++ (Arthur and Vassilvitskii, 2007). So a burst of photos is one group, however many they are.
    """
    lengths = np.square(pool).sum(1)
    drawn = [int(rng.integers(len(pool)))]
    apart = np.full(len(pool), np.inf)
    while len(drawn) < count:
        last = drawn[-1]
        apart = np.minimum(apart, np.maximum(lengths + lengths[last] - 2 * (pool @ pool[last]), 0))
        limits = np.cumsum(apart, dtype=np.float64)
        drawn.append(min(int(np.searchsorted(limits, rng.random() * limits[-1], side="right")), len(pool) - 1))
    return pool[drawn]
