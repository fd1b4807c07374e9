"""From logits to scores that mean what they say: of all pairs scored 0.7, about seven in ten should be true.

Losses such as the asymmetric one teach a network to rank images well, but leave its scores shifted and stretched, and
logits above 0 stretched otherwise than those below. So the calibrated logit is `scale · bent + offset`, where `bent` is
the logit with another slope above 0: `logit + (bend - 1) · softplus(logit)`. With a bend of 1 it is the logit, and
this is Platt scaling; with a bend it is beta calibration (Kull, Silva Filho and Flach, 2017). The scale is the
reciprocal of the temperature; a temperature alone (offset 0) cannot lower scores that are all too high. Scales and
bends are positive, so every label ranks images as before. `calibration_fit` finds them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tagloom.data.label_tree import LabelTree
from tagloom.errors import TaggerError
from tagloom.scratch import scratch_like

Activation: TypeAlias = Literal["sigmoid", "softmax"]

MAX_SCALE = 1e4  # a scale this far from 1, either way, comes from no training
MAX_OFFSET = 1e4
BLOCK_ELEMENTS = 4_000_000  # logits turned into scores at a time, so that little more than the scores takes memory


@dataclass(frozen=True)
class Calibration:
    """What is done to logits before they become scores.

    Attributes:
        scale: The scale that all labels share, 1 / temperature.
        offset: The offset that all labels share; it has no effect in a softmax.
        scales: One per class if classes have their own, else empty.
        offsets: One per class if classes have their own, else empty.
        bend: The slope above 0 that all labels share, in slopes below it.
        bends: One per class if classes have their own, else empty.
    """

    scale: float = 1.0
    offset: float = 0.0
    scales: tuple[float, ...] = ()
    offsets: tuple[float, ...] = ()
    bend: float = 1.0
    bends: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.scales) != len(self.offsets):
            raise TaggerError(f"calibration: {len(self.scales)} scales do not fit {len(self.offsets)} offsets.")
        if self.bends and len(self.bends) != len(self.scales):
            raise TaggerError(f"calibration: {len(self.bends)} bends do not fit {len(self.scales)} scales.")
        # In this form the conditions refuse NaN too.
        if not all(1 / MAX_SCALE <= value <= MAX_SCALE for value in (self.scale, self.bend, *self.scales, *self.bends)):
            raise TaggerError(f"calibration: scales and bends must lie between {1 / MAX_SCALE:g} and {MAX_SCALE:g}.")
        if not all(math.fabs(value) <= MAX_OFFSET for value in (self.offset, *self.offsets)):
            raise TaggerError(f"calibration: offsets must lie between {-MAX_OFFSET:g} and {MAX_OFFSET:g}.")

    def __call__(self, logits: NDArray[np.float32]) -> NDArray[np.float64]:
        """Calibrate logits (n, N)."""
        scale, offset = (self.scales, self.offsets) if self.scales else (self.scale, self.offset)
        # In float64, so that a large offset does not round neighbouring logits to the same number.
        sloped = bent(logits.astype(np.float64), np.asarray(self.bends or self.bend))
        return np.asarray(sloped * np.asarray(scale) + np.asarray(offset))

    def of_labels(self, classes: Sequence[str], labels: Sequence[str]) -> "Calibration":
        """Give the calibration of other labels: those among the classes keep their own, others take the shared one.

        >>> Calibration(2.0, 0.0, (3.0, 4.0), (0.5, 0.6)).of_labels(["cat", "dog"], ["dog", "yak"])
        Calibration(scale=2.0, offset=0.0, scales=(4.0, 2.0), offsets=(0.6, 0.0), bend=1.0, bends=(1.0, 1.0))
        """
        if not self.scales:
            return self
        bends = self.bends or (self.bend,) * len(self.scales)
        own = dict(zip(classes, zip(self.scales, self.offsets, bends, strict=True), strict=True))
        shared = (self.scale, self.offset, self.bend)
        scales, offsets, bends = zip(*(own.get(label, shared) for label in labels), strict=True)
        return replace(self, scales=scales, offsets=offsets, bends=bends)


def bent(logits: NDArray[np.float64], bend: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """Give logits (…, N) above 0 another slope, smoothly; one bend for all, or (N,).

    >>> bent(np.array([-20.0, 0.0, 20.0]), 0.5).round(3).tolist()
    [-20.0, -0.347, 10.0]
    """
    # In this form a bend of 1 leaves logits exactly as they are.
    return np.asarray(logits + (np.asarray(bend) - 1) * np.logaddexp(0, logits))


def to_scores(
    logits: NDArray[np.float32],
    activation: Activation,
    calibration: Calibration | None = None,
    tree: LabelTree | None = None,
) -> NDArray[np.float32]:
    """Turn logits (n, N) into scores from 0 to 1, calibrated if there is a calibration.

    With a label tree, a parent then scores at least as much as its best child. Scores of logits in a file are in a
    file next to it.

    >>> to_scores(np.float32([[0.0, 2.0]]), "sigmoid", Calibration(offset=-2.0))
    array([[0.11920292, 0.5       ]], dtype=float32)
    """
    scores = scratch_like(logits, np.float32)
    step = max(1, BLOCK_ELEMENTS // max(logits.shape[1], 1))
    for start in range(0, len(logits), step):
        rows = slice(start, start + step)
        scores[rows] = _scores_of(logits[rows], activation, calibration, tree)
    return scores


def _scores_of(
    logits: NDArray[np.float32], activation: Activation, calibration: Calibration | None, tree: LabelTree | None
) -> NDArray[np.float32]:
    if calibration is not None:
        logits = calibration(logits)  # type: ignore[assignment]  # float64 up to the scores, which are float32
    if activation == "softmax":
        exponent = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(exponent / exponent.sum(axis=1, keepdims=True), np.float32)
    # For either sign, use the exponential that shrinks: nothing overflows, and small scores keep their order.
    shrinking = np.exp(-np.abs(logits))
    scores = np.asarray(np.where(logits >= 0, 1, shrinking) / (1 + shrinking), np.float32)
    return tree.consistent_scores(scores) if tree else scores
