"""The metrics of zero-shot papers: how well unseen labels are ranked alone (ZSL) and among all labels (GZSL)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tagloom.metrics.blocks import Array, Known, Targets, sliced_by_class
from tagloom.metrics.precision_recall import f1_at_k
from tagloom.metrics.ranking import average_precision

TOP = (3, 5)
ZERO_SHOT_NAMES = ("mAP", *(f"F1@{k}" for k in TOP))
"""The metrics that papers report for each set of labels."""


def zero_shot_score(
    scores: Array, targets: Targets, unseen: Sequence[int], known: Known = None
) -> dict[str, dict[str, Any]]:
    """Measure scores of seen and unseen labels, in percent.

    Args:
        scores: `(n, N)`, all labels.
        targets: `(n, N)`, 0 or 1, dense or sparse.
        unseen: Columns of the labels that were not trained.
        known: `(n, N)` bool; unknown pairs count nowhere.

    Returns:
        For "ZSL" (unseen labels only), "GZSL" (all labels) and "seen" (seen labels only): "mAP", the mean of AP over
        the labels that have a positive; "P@3", "R@3", "F1@3", "P@5", "R@5", "F1@5", when every image gets
        exactly that many of these labels; "AP", a list with None for a label without a positive; "columns", the labels
        that were counted; "columns_without_positive", those of them without a positive.

    >>> result = zero_shot_score(np.array([[0.9, 0.2, 0.1], [0.1, 0.3, 0.4]]), np.array([[1, 0, 0], [0, 1, 0]]), [1, 2])
    >>> result["ZSL"]["mAP"], result["GZSL"]["mAP"], result["ZSL"]["columns_without_positive"]
    (100.0, 100.0, [2])
    """
    every = np.arange(scores.shape[1])
    columns = {"ZSL": np.asarray(unseen, np.intp), "GZSL": every, "seen": np.setdiff1d(every, unseen)}
    return {part: _measured(scores, targets, known, chosen) for part, chosen in columns.items()}


def _measured(scores: Array, targets: Targets, known: Known, columns: Array) -> dict[str, Any]:
    chosen: Any = sliced_by_class(targets)
    seen: Any = sliced_by_class(known)
    parts = scores[:, columns], chosen[:, columns], None if seen is None else seen[:, columns]
    precision = average_precision(*parts)
    figures: dict[str, Any] = {"mAP": 100 * float(np.nanmean(precision)) if not np.isnan(precision).all() else 0.0}
    for k in TOP:
        figures |= {f"{name}@{k}": value for name, value in f1_at_k(*parts[:2], k, parts[2]).items()}
    figures["AP"] = [None if np.isnan(value) else 100 * value for value in precision.tolist()]
    figures["columns"] = columns.tolist()
    figures["columns_without_positive"] = columns[np.isnan(precision)].tolist()
    return figures
