"""What is chosen on the images held aside once the weights are fixed: calibration first, then thresholds."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.recipe import Recipe
from tagloom.scoring.calibration import Calibration, to_scores
from tagloom.scoring.calibration_fit import fit_calibration
from tagloom.scoring.measure import measure_scores
from tagloom.scoring.thresholds import choose_thresholds
from tagloom.training.validation import Scored


class Decided(NamedTuple):
    """What turns logits into tags.

    Attributes:
        calibration: What is done to logits; None for nothing.
        thresholds: (N,), from which calibrated score each label counts.
    """

    calibration: Calibration | None
    thresholds: NDArray[np.float32]


def decide(held: Scored | None, recipe: Recipe, classes: int) -> Decided:
    """Calibrate on the images held aside, and choose thresholds of the calibrated scores; without images, neither."""
    aim, value = recipe.thresholds.aim, recipe.thresholds.value
    if held is None:
        return Decided(None, np.full(classes, value if aim == "fixed" else 0.5, np.float32))
    kind = recipe.calibration.kind
    calibration = None if kind == "none" else fit_calibration(*held, kind=kind, activation=recipe.activation)
    scores = to_scores(held.logits, recipe.activation, calibration)
    wanted = None if aim == "f1" else value
    return Decided(calibration, choose_thresholds(scores, held.targets, held.known, aim=aim, value=wanted))


def measure(scored: Scored, recipe: Recipe, decided: Decided) -> dict[str, Any]:
    """Give the figures of some images, as `tagloom evaluate` gives them, with "calibration" among them."""
    metrics, calibration = measure_scores(
        *scored,
        threshold=decided.thresholds,
        task=recipe.task,
        activation=recipe.activation,
        calibration=decided.calibration,
    )
    return metrics | {"calibration": calibration}
