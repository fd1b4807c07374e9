"""From scores to tags: the one place where it is decided which classes of a picture become its tags."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import TaggerError
from tagloom.recipe.names import Task
from tagloom.scoring.promise import HeldOutCounts, promised_thresholds, wanted_share
from tagloom.scoring.thresholds import NEVER

NO_COUNTS = (
    "this tagger cannot promise anything: it carries no counts on images that were held out of its training. Give "
    "labelled images that it has not learned from (--promise-on TABLE), or train it again with data.holdout above 0."
)


class Tag(NamedTuple):
    """A label and how sure the tagger is of it, from 0 to 1."""

    label: str
    score: float


@dataclass(frozen=True)
class TagRule:
    """Which classes become tags, made once for many pictures; see `tag_rule`.

    Attributes:
        classes: Label names, in the order of the scores.
        limits: The score (N,) that each class must exceed; None if scores do not matter.
        most: The most tags per picture; None for any number.
        left_out: The classes of which nothing could be promised, so that they become no tags.
    """

    classes: tuple[str, ...]
    limits: NDArray[np.float32] | None
    most: int | None
    left_out: tuple[str, ...] = ()

    def tags(self, row: NDArray[np.floating]) -> list[Tag]:
        """Turn one picture's scores (N,) into tags, best first."""
        columns = np.arange(len(row)) if self.limits is None else np.flatnonzero(row > self.limits)
        best = columns[np.argsort(-row[columns], kind="stable")[: self.most]]
        return [Tag(self.classes[column], float(row[column])) for column in best]

    def best(self, row: NDArray[np.floating]) -> Tag:
        """Give the class with the highest of one picture's scores (N,), whatever its threshold."""
        column = int(np.argmax(row))
        return Tag(self.classes[column], float(row[column]))


def tag_rule(
    classes: Sequence[str],
    own_limits: NDArray[np.float32],
    task: Task,
    *,
    threshold: float | Sequence[float] | None = None,
    top_k: int | None = None,
    max_tags: int | None = None,
    precision: float | None = None,
    recall: float | None = None,
    held_out: HeldOutCounts | None = None,
) -> TagRule:
    """Decide which classes become tags.

    Args:
        classes: Label names, in the order of the scores.
        own_limits: The tagger's own thresholds (N,).
        task: A "single"-label tagger gives its best class, unless it is asked for something else.
        threshold: The score above which a class becomes a tag, one for all or one per class, instead of the own ones.
        top_k: The most tags per picture. Without `threshold`, exactly this many, whatever their scores.
        max_tags: The most tags per picture, all of them above their thresholds.
        precision: The least precision to promise of each label, with 95 % confidence. Labels of which it cannot be
            promised become no tags.
        recall: The least recall to promise, instead.
        held_out: What promises are made from.
    """
    for name, count in (("top_k", top_k), ("max_tags", max_tags)):
        if count is not None and count < 1:
            raise TaggerError(f"{name} is {count}; ask for at least one label, or leave it out.")
    limits: NDArray[np.float32] | None = None
    if precision is not None or recall is not None:
        if threshold is not None or top_k is not None:
            raise TaggerError("a promise decides the thresholds: leave out threshold and top_k.")
        wanted_share(precision, recall)
        if held_out is None:
            raise TaggerError(NO_COUNTS)
        limits = promised_thresholds(held_out, precision=precision, recall=recall)
        left_out = tuple(name for name, limit in zip(classes, limits, strict=True) if limit >= NEVER)
        return TagRule(tuple(classes), limits, max_tags, left_out)
    if threshold is not None:
        limits = _limits(threshold, len(classes))
    elif top_k is None and task == "single":
        top_k = 1
    elif top_k is None:
        limits = own_limits
    asked = [count for count in (top_k, max_tags) if count is not None]
    return TagRule(tuple(classes), limits, min(asked, default=None))


def _limits(threshold: float | Sequence[float], classes: int) -> NDArray[np.float32]:
    # In float32 like the scores, so that a score read back from a file is not above itself.
    given = np.asarray(threshold, np.float32)
    if given.shape not in ((), (classes,)):
        raise TaggerError(f"{given.size} thresholds were given for {classes} classes: give one, or one for each.")
    return np.broadcast_to(given, classes)
