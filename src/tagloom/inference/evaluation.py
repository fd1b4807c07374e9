"""Scoring a tagger on a labelled table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom.data.reading import MAX_BROKEN_SHARE, check_broken
from tagloom.data.table import LabelTable
from tagloom.errors import ImageError
from tagloom.inference.predictor import Tagger
from tagloom.metrics import score, top1_accuracy


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
    progress: Callable[[int, int], None] = lambda done, total: None,
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
    targets, known = table.targets(rows), table.known(rows)
    limit = tagger.spec.threshold_row() if threshold is None else threshold
    metrics = score(scores[rows], targets, known, threshold=limit, top_k=top_k)
    if tagger.spec.task == "single":
        metrics["top1"] = top1_accuracy(scores[rows], targets)
    return Evaluation(metrics, rows, scores[rows], [error for _, error in broken])
