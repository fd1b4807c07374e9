"""All figures of some logits: how good their ranking and decisions are, and how far scores are from probabilities."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tagloom.metrics import calibration_figures, score, top1_accuracy
from tagloom.scoring.calibration import Activation, Calibration, to_scores


def measure_scores(
    logits: NDArray[np.float32],
    targets: NDArray[np.uint8],
    known: NDArray[np.bool_] | None,
    *,
    threshold: float | NDArray[np.float32],
    top_k: int = 3,
    task: Literal["multi", "single"] = "multi",
    activation: Activation = "sigmoid",
    calibration: Calibration | None = None,
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Measure logits against the truth.

    Args:
        logits: (n, N), not calibrated.
        targets: (n, N).
        known: (n, N), or None where all pairs are.
        threshold: One for all classes or one for each, of calibrated scores.
        top_k: How many labels per image the `_top…` figures allow.
        task: "single" adds "top1".
        activation: What turns logits into scores.
        calibration: What is done to them before; None for nothing.

    Returns:
        The metrics, and the figures of calibration before and after, as in `Evaluation`.
    """
    scores = to_scores(logits, activation, calibration)
    metrics = score(scores, targets, known, threshold=threshold, top_k=top_k)
    if task == "single":
        metrics["top1"] = top1_accuracy(scores, targets)
    figures = {"before": calibration_figures(to_scores(logits, activation), targets, known)}
    if calibration is not None:
        figures["after"] = calibration_figures(scores, targets, known)
    return metrics, figures
