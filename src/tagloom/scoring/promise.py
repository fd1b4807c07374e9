"""A promise instead of a threshold: at least this precision, or this recall, of a label, with 95 % confidence.

A tagger carries, for each class, how many held-out images and positives score above some candidate thresholds. That is
little, and enough to promise any precision or recall later, without the images.

**Why the promise holds.** The candidates are ranks of scores, chosen without a look at the labels. So the images above
a candidate are a fair sample of all images that will ever be above it, the right ones among them follow a binomial
distribution, and its exact test (Clopper and Pearson, 1934) says whether the precision could be below the promise.

**Choosing among candidates** would spoil that: of twenty thresholds that are a little too low, one passes by luck. So
the candidates are tested from the highest threshold to the lowest by the fallback procedure (Wiens, 2003), a fixed
sequence with two starts. Each start gets half of the risk, and a candidate that passes hands on to the next one all
that it had. The chance that *any* threshold passes that should not is then at most the risk, and the lowest one that
passes can be taken. One start would not do: with few images above it, it fails by chance, and with many it is too low
for rare labels.

**Choosing among labels** would spoil it too: where most labels cannot keep a promise, 5 % of them pass by luck, and may
be as many as those that pass by right. So the risk per label is lowered to 5 % times the share of labels that pass at
that risk (Benjamini and Hochberg, 1995). Then of the labels that are promised, 5 % are expected to fail, at most.

Recall can only fall as the threshold rises, so the sequence from the lowest threshold up needs no starts. Every label
with enough positives gets some threshold that way, so nothing is chosen among labels.

All this is about images like those held out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import TaggerError
from tagloom.metrics.blocks import Array, Known, Targets, check_shapes
from tagloom.metrics.ranking import Column, measure_columns
from tagloom.scoring.thresholds import NEVER, float32_scores, halfway_below

RISK = 0.05
"""The chance that a promise is given and does not hold."""
FEWEST = 5  # fewer images than this prove not even a precision of 0.5
STARTS = (2, 4)  # times as many images as a flawless threshold needs
RATIO = 1.15  # of the images above one candidate and above the next
MAX_CANDIDATES = 200  # of one class, in a file from others


@dataclass(frozen=True)
class ClassCounts:
    """What is above the candidate thresholds of one class among the held-out images.

    Attributes:
        positives: How many held-out images have the class.
        thresholds: Scores, descending.
        images: How many images score more than each.
        found: How many of these have the class.
    """

    positives: int = 0
    thresholds: tuple[float, ...] = ()
    images: tuple[int, ...] = ()
    found: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.thresholds) == len(self.images) == len(self.found) <= MAX_CANDIDATES:
            raise TaggerError(f"held_out: needs as many thresholds as images and found, at most {MAX_CANDIDATES}.")
        steps = zip(self.images, self.found, (0, *self.images), (0, *self.found), strict=False)
        rising = all(0 <= found - before_found <= images - before for images, found, before, before_found in steps)
        falling = all(0 <= value <= 1 for value in self.thresholds) and all(np.diff(self.thresholds) < 0)
        if not rising or not falling or not (self.found or (0,))[-1] <= self.positives:
            raise TaggerError("held_out: thresholds must fall from 1 to 0, and counts rise with them.")


@dataclass(frozen=True)
class HeldOutCounts:
    """What a tagger carries so that it can promise: counts on images that it has not learned from.

    Attributes:
        images: How many images were scored.
        classes: The counts of each class, in the order of the scores.
    """

    images: int
    classes: tuple[ClassCounts, ...]

    def of_labels(self, classes: Sequence[str], names: Sequence[str]) -> "HeldOutCounts":
        """Give the counts of other labels; of those that are not among the classes nothing was counted."""
        found = dict(zip(classes, self.classes, strict=True))
        return HeldOutCounts(self.images, tuple(found.get(name, ClassCounts()) for name in names))


def count_held_out(scores: Array, targets: Targets, known: Known = None) -> HeldOutCounts:
    """Count what is above candidate thresholds.

    Args:
        scores: (n, N), from 0 to 1, of images that were not learned from.
        targets: (n, N), 0 or 1.
        known: (n, N) bool; unknown pairs are left out.
    """
    images, _ = check_shapes(scores, targets, known)
    found = measure_columns(lambda column, _: _count_class(column), float32_scores(scores), targets, known)
    return HeldOutCounts(images, tuple(found))


def _count_class(column: Column) -> ClassCounts:
    """Count above thresholds just below the scores of some ranks; nothing for a class that could never be promised."""
    scores = column.probabilities("thresholds")
    if len(column.positives) < FEWEST:
        return ClassCounts(len(column.positives))
    scores = scores[scores > 0]  # 0 is above no threshold
    ranks = [FEWEST]
    while ranks[-1] < len(scores):
        ranks.append(min(max(ranks[-1] + 1, round(ranks[-1] * RATIO)), len(scores)))
    chosen = [scores[-rank] for rank in ranks if rank <= len(scores)]
    cuts = np.unique(np.array([halfway_below(column, score) for score in chosen], np.float32))[::-1]
    return ClassCounts(
        len(column.positives),
        tuple(float(cut) for cut in cuts),
        tuple(int(count) for count in column.images_over(cuts)),
        tuple(int(count) for count in column.positives_over(cuts)),
    )


def promised_thresholds(
    counts: HeldOutCounts, *, precision: float | None = None, recall: float | None = None
) -> NDArray[np.float32]:
    """Give the threshold (N,) of each class that keeps a promise, `NEVER` where none does.

    Args:
        counts: What was counted on held-out images.
        precision: The least precision of each label; as many images as possible are tagged.
        recall: The least recall of each label; as few images as possible are tagged.
    """
    wanted = wanted_share(precision, recall)
    if recall is not None:
        return np.array([_complete(found, wanted) for found in counts.classes], np.float32)
    return _precise_labels(counts.classes, wanted)


def wanted_share(precision: float | None, recall: float | None) -> float:
    """Give the share that is to be promised, or refuse what nobody can promise."""
    if (precision is None) == (recall is None):
        raise TaggerError("a promise is about precision or about recall: ask for one of them.")
    wanted = precision if recall is None else recall
    if wanted is None or not 0 < wanted < 1:
        raise TaggerError(
            f"a precision or recall of {wanted:g} cannot be promised: ask for more than 0 and less than 1, such as 0.9."
        )
    return wanted


def fewest_cases(share: float) -> int:
    """Give the fewest tags, or images with a label, that can prove a share if every one of them is right.

    >>> fewest_cases(0.9), fewest_cases(0.5)
    (29, 5)
    """
    return int(np.ceil(np.log(RISK) / np.log(share)))


def _precise_labels(classes: Sequence[ClassCounts], precision: float) -> NDArray[np.float32]:
    """Give thresholds at the largest risk per label that is no more than `RISK` times the share of labels that pass."""
    least = [_least_risk(found, precision) for found in classes]
    passing = sum(risk <= RISK for risk in least)
    while passing:
        risk = RISK * passing / len(classes)
        still = sum(needed <= risk for needed in least)
        if still >= passing:
            return np.array([_precise(found, precision, risk) for found in classes], np.float32)
        passing = still
    return np.full(len(classes), NEVER, np.float32)


def _precise(counts: ClassCounts, precision: float, risk: float) -> float:
    """Give the lowest threshold that passes the fallback procedure at a risk."""
    starts = _starts(counts, precision)
    best, handed_on = NEVER, 0.0
    for index, (threshold, images, found) in enumerate(
        zip(counts.thresholds, counts.images, counts.found, strict=True)
    ):
        own = handed_on + (risk / len(starts) if index in starts else 0.0)
        passes = own > 0 and _chance_of(found, images, precision) <= own
        handed_on = own if passes else 0.0
        best = threshold if passes else best
    return best


def _least_risk(counts: ClassCounts, precision: float) -> float:
    """Give the lowest risk at which any threshold passes: one of the starts must, as all others inherit."""
    starts = _starts(counts, precision)
    chances = [_chance_of(counts.found[index], counts.images[index], precision) for index in starts]
    return len(starts) * min(chances, default=1.0)


def _starts(counts: ClassCounts, precision: float) -> list[int]:
    """Give the candidates at which the procedure starts. Precisions below 0.5 start as 0.5 does."""
    flawless = np.log(RISK) / np.log(max(precision, 0.5))
    starts = (int(np.searchsorted(counts.images, factor * flawless)) for factor in STARTS)
    return [index for index in starts if index < len(counts.images)]


def _complete(counts: ClassCounts, recall: float) -> float:
    """Give the highest threshold whose recall passes, as all lower ones do."""
    best = NEVER
    for threshold, found in zip(counts.thresholds[::-1], counts.found[::-1], strict=True):
        if _chance_of(found, counts.positives, recall) > RISK:
            break
        best = threshold
    return best


def _chance_of(found: int, images: int, share: float) -> float:
    """Give the chance of at least `found` successes among `images` if each has the chance `share`."""
    from scipy.special import betainc  # slow to import, and most predictions promise nothing

    return 1.0 if found <= 0 else float(betainc(found, images - found + 1, share))
