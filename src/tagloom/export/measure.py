"""What an export is worth: how well it agrees with what it was made from, and how fast it is on this machine."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.predict.tagger import Tagger

ROUNDS = 12
CALLS = 4  # per round


class Agreement(NamedTuple):
    """How alike two taggers are on some pictures.

    Attributes:
        largest: The largest difference of two scores.
        mean: The mean difference of two scores.
        tags: Tags that both give, as a share of those that either gives; 1 if neither gives any.
    """

    largest: float
    mean: float
    tags: float


def agreement(first: Tagger, second: Tagger, pictures: Sequence[NDArray[np.uint8]]) -> Agreement:
    """Compare the scores and the tags of two taggers."""
    ours, theirs = (tagger.scores(pictures) for tagger in (first, second))
    differences = np.abs(ours - theirs)
    both = either = 0
    for our, their in zip(ours, theirs, strict=True):
        tags = [{tag.label for tag in tagger.tags(row)} for tagger, row in ((first, our), (second, their))]
        both += len(tags[0] & tags[1])
        either += len(tags[0] | tags[1])
    return Agreement(float(differences.max()), float(differences.mean()), both / either if either else 1.0)


def times_as_fast(new: Callable[[], object], old: Callable[[], object]) -> float:
    """Say how many times as fast `new` is as `old`: both in turns, on one core, the best of many calls.

    Only the processor's time for this thread counts, so that other work on the machine does not.
    """
    with ThreadPoolExecutor(1) as one:
        return one.submit(_compare, new, old).result()


def _compare(new: Callable[[], object], old: Callable[[], object]) -> float:
    best = [float("inf")] * 2
    for _ in range(ROUNDS):
        for index, run in enumerate((new, old)):
            for _ in range(CALLS):
                started = time.thread_time()
                run()
                best[index] = min(best[index], time.thread_time() - started)
    return best[1] / best[0]
