"""Scoring a tagger on a labelled table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tagloom.data.label_split import LabelSplit
from tagloom.data.reading import MAX_BROKEN_SHARE, check_broken
from tagloom.data.table import LabelTable
from tagloom.errors import ImageError
from tagloom.inference.predictor import Tagger
from tagloom.metrics import score, top1_accuracy, zero_shot_score

Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True)
class Evaluation:
    """What a tagger scored.

    Attributes:
        metrics: The dict of `tagloom.metrics.score`; for single-label taggers with "top1".
        rows: Rows of the table that could be read, (n,).
        scores: Their probabilities, (n, N).
        broken: Images that could not be read and are not counted.
    """

    metrics: dict[str, Any]
    rows: NDArray[np.int64]
    scores: NDArray[np.float32]
    broken: list[ImageError]


def evaluate(
    tagger: Tagger,
    table: LabelTable,
    *,
    threshold: float | None = None,
    top_k: int = 3,
    max_broken: float = MAX_BROKEN_SHARE,
    ignore_other_labels: bool = False,
    progress: Progress = lambda done, total: None,
) -> Evaluation:
    """Score a tagger on a table, in the tagger's order of classes.

    Args:
        tagger: The tagger.
        table: Images with labels; each of its classes must be one of the tagger's.
        threshold: One threshold for all classes; by default the tagger's own.
        top_k: How many labels per image the `_top…` figures allow.
        ignore_other_labels: Leave out labels of the table that the tagger does not know, instead of refusing them.
        max_broken: Above this share of unreadable images it is an error.
        progress: Called with images done and images to do.
    """
    table = table.with_classes(tagger.classes, on_extra="drop" if ignore_other_labels else "error")
    rows, scores, broken = _scored(tagger, table, max_broken, progress)
    targets, known = table.targets(rows), table.known(rows)
    limit = tagger.spec.threshold_row() if threshold is None else threshold
    metrics = score(scores, targets, known, threshold=limit, top_k=top_k)
    if tagger.spec.task == "single":
        metrics["top1"] = top1_accuracy(scores, targets)
    return Evaluation(metrics, rows, scores, broken)


def evaluate_split(
    tagger: Tagger,
    table: LabelTable,
    split: LabelSplit,
    *,
    max_broken: float = MAX_BROKEN_SHARE,
    progress: Progress = lambda done, total: None,
) -> Evaluation:
    """Score a tagger on labels that it was trained on and labels that it was not, as zero-shot papers do.

    Args:
        tagger: One that takes any labels, or that has all of these among its classes.
        table: Images with labels, those of the split among its classes.
        split: Which labels are seen and which unseen.
        max_broken: Above this share of unreadable images it is an error.
        progress: Called with images done and images to do.

    Returns:
        Metrics are the dict of `tagloom.metrics.zero_shot_score`, its columns being those of seen and then unseen
        labels, as are those of the scores.
    """
    labels = (*split.seen, *split.unseen)
    asked = tagger if set(labels) <= set(tagger.classes) else tagger.with_labels(labels)
    table = table.with_classes(labels, on_extra="drop")
    rows, scores, broken = _scored(asked, table, max_broken, progress)
    scores = scores[:, [asked.classes.index(label) for label in labels]]
    unseen = range(len(split.seen), len(labels))
    metrics = zero_shot_score(scores, table.targets(rows), unseen, table.known(rows))
    return Evaluation(metrics, rows, scores, broken)


def trained_labels(tagger: Tagger) -> set[str]:
    """Give the labels that a tagger was trained on: its classes that had a positive image."""
    return set(tagger.spec.classes) - set(tagger.spec.data.get("classes_without_positive") or [])


def _scored(
    tagger: Tagger, table: LabelTable, max_broken: float, progress: Progress
) -> tuple[NDArray[np.int64], NDArray[np.float32], list[ImageError]]:
    """Give the rows of a table that could be read, their scores (n, N), and the images that could not."""
    scores = np.zeros((len(table), len(tagger.classes)), np.float32)
    broken: list[tuple[int, ImageError]] = []
    for row, result in tagger.stream(table.path(row) for row in range(len(table))):
        if isinstance(result, ImageError):
            broken.append((row, result))
        else:
            scores[row] = result
        progress(row + 1, len(table))
    check_broken(broken, len(table), max_broken, table.source)
    rows = np.setdiff1d(np.arange(len(table)), [row for row, _ in broken])
    return rows, scores[rows], [error for _, error in broken]
