"""Everything measured about logits: how good ranking and tags are, and how far scores are from probabilities."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom.data.label_tree import LabelTree
from tagloom.metrics import calibration_figures, long_tail, score
from tagloom.metrics.blocks import Known, Targets
from tagloom.recipe.names import Task
from tagloom.scoring.calibration import Activation, Calibration, to_scores


def measure_scores(
    logits: NDArray[np.float32],
    targets: Targets,
    known: Known,
    *,
    threshold: float | NDArray[np.float32],
    top_k: int = 3,
    task: Task = "multi",
    activation: Activation = "sigmoid",
    calibration: Calibration | None = None,
    tree: LabelTree | None = None,
    training_positives: Sequence[int] = (),
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Measure logits against the truth.

    Args:
        logits: (n, N), not calibrated.
        targets: (n, N), dense or sparse.
        known: (n, N) bool, dense or sparse, or None if all pairs are known.
        threshold: For calibrated scores, one for all classes or one for each.
        top_k: How many labels per image the `_top…` metrics allow.
        task: "single" adds "top1".
        activation: What turns logits into scores.
        calibration: What is done to logits before that; None for nothing.
        tree: A label tree, which makes scores consistent and adds "levels": classes and mAP of each level.
        training_positives: How many images of each class were learned from: adds "long_tail", the mAP of head, middle
            and tail. Empty where that is not known.

    Returns:
        The metrics, and the calibration errors before and after calibration, as in `Evaluation`.
    """
    scores = to_scores(logits, activation, calibration, tree)
    metrics = score(scores, targets, known, threshold=threshold, top_k=top_k, task=task)
    if tree:
        metrics["levels"] = level_metrics(metrics["AP"], tree)
    if training_positives:
        metrics["long_tail"] = long_tail(metrics["AP"], training_positives)
    figures = {"before": calibration_figures(to_scores(logits, activation), targets, known)}
    if calibration is not None:
        figures["after"] = calibration_figures(scores, targets, known)
    return metrics, figures


def level_metrics(precision: Sequence[float | None], tree: LabelTree) -> list[dict[str, Any]]:
    """Give the mAP of each level of a label tree from the AP of each class.

    >>> level_metrics([80.0, 60.0, None], LabelTree(["animal", "dog", "cat"], {"dog": "animal", "cat": "animal"}))
    [{'level': 1, 'classes': 1, 'mAP': 80.0}, {'level': 2, 'classes': 1, 'mAP': 60.0}]
    """
    levels: dict[int, list[float]] = {}
    for level, value in zip(tree.levels.tolist(), precision, strict=True):
        if value is not None:
            levels.setdefault(level, []).append(value)
    return [
        {"level": level, "classes": len(found), "mAP": float(np.mean(found))} for level, found in sorted(levels.items())
    ]
