"""What a table's scores say beyond metrics: counts per class, curves, errors in company, labels that look wrong.

Everywhere, `scores` are (n, N), `targets` 0 or 1 and `known` bool of the same shape, dense or sparse; None for `known`
means that all pairs are known. They are read some images at a time, so 9,600 classes need no more memory than 80.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tagloom.metrics.blocks import BLOCK_ELEMENTS, Known, Targets, flags_by_image, sliced_by_image

Scores = NDArray[np.float32]
Flags = NDArray[np.bool_]
CURVE_POINTS = 101
HISTOGRAM_BINS = 40
_CLIP = 1e-7


class Counts(NamedTuple):
    """Tags against the truth at a threshold, each (N,), over known pairs."""

    right: NDArray[np.int64]
    wrong: NDArray[np.int64]
    missed: NDArray[np.int64]

    @property
    def precision(self) -> NDArray[np.float64]:
        """In percent; NaN without a tag."""
        return _percent(self.right, self.right + self.wrong)

    @property
    def recall(self) -> NDArray[np.float64]:
        """In percent; NaN without a positive."""
        return _percent(self.right, self.right + self.missed)

    @property
    def f1(self) -> NDArray[np.float64]:
        """In percent; NaN without a tag or positive."""
        return _percent(2 * self.right, 2 * self.right + self.wrong + self.missed)


class Block(NamedTuple):
    """Some images in a row from `start` on: their scores, and which pairs are known to be true and to be untrue."""

    start: int
    scores: Scores
    true: Flags
    untrue: Flags


def image_blocks(scores: Scores, targets: Targets, known: Known) -> Iterator[Block]:
    """Give all images, a few megabytes at a time."""
    targets, known = sliced_by_image(targets), sliced_by_image(known)
    step = max(1, BLOCK_ELEMENTS // max(scores.shape[1], 1))
    for start in range(0, len(scores), step):
        rows = slice(start, start + step)
        true = flags_by_image(targets, rows)
        untrue = ~true
        if known is not None:
            seen = flags_by_image(known, rows)
            true, untrue = true & seen, untrue & seen
        yield Block(start, scores[rows], true, untrue)


def count_tags(scores: Scores, targets: Targets, known: Known, thresholds: Scores) -> Counts:
    """Count right, wrong and missed tags of each class; a tag is a score above its threshold."""
    counts = np.zeros((3, scores.shape[1]), np.int64)
    for block in image_blocks(scores, targets, known):
        tagged = block.scores > thresholds
        for place, flags in enumerate((tagged & block.true, tagged & block.untrue, ~tagged & block.true)):
            counts[place] += np.count_nonzero(flags, axis=0)
    return Counts(*counts)


def precision_recall_curve(scores: Scores, true: Flags) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give recall and precision, from 0 to 1, of one list of scores, thinned to about `CURVE_POINTS`.

    Equal scores enter together, since no threshold separates them.
    """
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(true[order])
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    recall, precision = hits[last] / max(int(hits[-1]), 1), hits[last] / (last + 1)
    kept = np.unique(np.searchsorted(recall, np.linspace(0, recall[-1], CURVE_POINTS)))
    return recall[kept], precision[kept]


def score_histograms(scores: Scores, targets: Targets, known: Known) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the scores of positive and of negative known pairs in `HISTOGRAM_BINS` bins from 0 to 1."""
    edges = np.linspace(0, 1, HISTOGRAM_BINS + 1)
    counts = np.zeros((2, HISTOGRAM_BINS), np.int64)
    for block in image_blocks(scores, targets, known):
        for place, pairs in enumerate((block.true, block.untrue)):
            counts[place] += np.histogram(block.scores[pairs], edges)[0]
    return counts[0], counts[1]


class Moved(NamedTuple):
    """All tags together if every threshold were moved by `by`: precision, recall and F1 in percent, tags per image."""

    by: float
    precision: float
    recall: float
    f1: float
    tags: float


def move_thresholds(
    scores: Scores, targets: Targets, known: Known, thresholds: Scores, steps: NDArray[np.float64]
) -> list[Moved]:
    """Say what moving all thresholds up or down would cost."""
    moved = []
    for by in steps:
        counts = count_tags(scores, targets, known, np.clip(thresholds + np.float32(by), 0, 1))
        total = Counts(*(part.sum(keepdims=True) for part in counts))
        precision, recall, f1 = (float(np.nan_to_num(part[0])) for part in (total.precision, total.recall, total.f1))
        tags = int(total.right[0] + total.wrong[0]) / max(len(scores), 1)
        moved.append(Moved(float(by), precision, recall, f1, tags))
    return moved


class Company(NamedTuple):
    """A wrong tag that comes with a true label more often than chance.

    Attributes:
        label: The label that the images have, by column.
        tag: The tag that is wrong there, by column.
        images: How many images have the label and the wrong tag.
        expected: How many it would be if the wrong tags were spread over all images where that tag is untrue.
        together: How often the tag is true where the label is, in percent: their co-occurrence.
        instead: In how many of the images the label itself was missed.
    """

    label: int
    tag: int
    images: int
    expected: float
    together: float
    instead: int


def errors_in_company(scores: Scores, targets: Targets, known: Known, thresholds: Scores, most: int) -> list[Company]:
    """List wrong tags by the true labels they come with, those furthest beyond chance first.

    A pair with much `together`: the tag is guessed because it usually comes with the label. A pair with many
    `instead` is a confusion: one label is mistaken for the other.
    """
    parts: list[list[Any]] = [[], [], []]
    untrue = np.zeros(scores.shape[1], np.int64)
    for block in image_blocks(scores, targets, known):
        tagged = block.scores > thresholds
        untrue += np.count_nonzero(block.untrue, axis=0)
        for part, flags in zip(parts, (block.true, tagged & block.untrue, block.true & ~tagged), strict=True):
            part.append(sparse.csr_array(flags, dtype=np.float32))
    if not parts[0]:
        return []
    truth, wrong, missed = (sparse.csr_array(sparse.vstack(part)) for part in parts)
    pairs: Any = sparse.coo_array(truth.T @ wrong)
    if not pairs.nnz:
        return []
    labels, tags = pairs.coords
    chance = wrong.sum(axis=0) / np.maximum(untrue, 1)
    # Images that have the label and could have the wrong tag: those where the tag is not true.
    both: Any = sparse.csr_array(truth.T @ truth)
    have = np.asarray(truth.sum(axis=0), np.float64)
    together = np.asarray(both[labels, tags]).ravel()
    expected = chance[tags] * (have[labels] - together)
    beyond = (pairs.data - expected) / np.sqrt(np.maximum(expected, 1.0))
    order = np.argsort(-beyond, kind="stable")[:most]
    taken: Any = sparse.csr_array(missed.T @ wrong)
    instead = np.asarray(taken[labels[order], tags[order]]).ravel()
    return [
        Company(
            label=int(labels[index]),
            tag=int(tags[index]),
            images=int(pairs.data[index]),
            expected=float(expected[index]),
            together=float(100 * together[index] / max(have[labels[index]], 1)),
            instead=int(instead[place]),
        )
        for place, index in enumerate(order)
        if beyond[index] > 0
    ]


class Suspect(NamedTuple):
    """A pair whose label may be wrong: row and column, and the score that speaks against the table."""

    row: int
    column: int
    score: float


def suspicious_labels(
    scores: Scores, targets: Targets, known: Known, count: int
) -> tuple[list[Suspect], list[Suspect]]:
    """List labels that look missing (high scores of negatives) and labels that look wrong (low scores of positives).

    At most one of each kind per image.
    """
    missing: list[Suspect] = []
    wrong: list[Suspect] = []
    for block in image_blocks(scores, targets, known):
        high = _best_per_image(np.where(block.untrue, block.scores, -1.0), count)
        low = _best_per_image(np.where(block.true, 1.0 - block.scores, -1.0), count)
        missing += [Suspect(block.start + row, column, value) for row, column, value in high]
        wrong += [Suspect(block.start + row, column, 1.0 - value) for row, column, value in low]
    missing.sort(key=lambda suspect: -suspect.score)
    wrong.sort(key=lambda suspect: suspect.score)
    return missing[:count], wrong[:count]


@dataclass(frozen=True)
class HardImage:
    """An image that the tagger finds hard.

    Attributes:
        row: Its row.
        loss: The sum of its labels' log losses.
        worst: The column of the label that adds most.
    """

    row: int
    loss: float
    worst: int


def hardest_images(scores: Scores, targets: Targets, known: Known, count: int) -> list[HardImage]:
    """List the images whose labels are least likely by the scores."""
    found: list[HardImage] = []
    for block in image_blocks(scores, targets, known):
        likely = np.clip(np.where(block.true, block.scores, 1 - block.scores), _CLIP, 1)
        loss = np.where(block.true | block.untrue, -np.log(likely), 0)
        total = loss.sum(axis=1)
        rows = np.argsort(-total, kind="stable")[:count]
        found += [
            HardImage(block.start + int(row), float(total[row]), int(loss[row].argmax()))
            for row in rows
            if total[row] > 0
        ]
    found.sort(key=lambda image: -image.loss)
    return found[:count]


def _best_per_image(values: NDArray[np.floating], count: int) -> list[tuple[int, int, float]]:
    if not len(values):
        return []
    columns = values.argmax(axis=1)
    best = values[np.arange(len(values)), columns]
    rows = np.argsort(-best, kind="stable")[:count]
    return [(int(row), int(columns[row]), float(best[row])) for row in rows if best[row] >= 0]


def _percent(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(whole > 0, 100 * part / np.maximum(whole, 1), np.nan)
