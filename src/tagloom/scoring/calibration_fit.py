"""Finding the scale and offset of a calibration on labelled images that the network was not trained on.

The fit minimises the negative log-likelihood of the labels, and a prior pulls each class's scale and offset towards
those that all classes share. The prior weighs about as much as `prior_positives` positive images. So it decides for
classes with a handful of positives, which would otherwise be calibrated by chance (a class that is separated perfectly
would want an infinite scale), and hardly matters for classes with many. The shared scale and offset have almost no
prior, because losses shift scores far.
"""

import math
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from tagloom.errors import DataError
from tagloom.metrics.blocks import (
    Array,
    Known,
    Targets,
    check_shapes,
    flags_by_class,
    flags_by_image,
    in_blocks,
    scores_by_class,
    sliced_by_class,
)
from tagloom.scoring.calibration import Activation, Calibration

Kind: TypeAlias = Literal["shared", "per-class"]

SCALES = (0.02, 50.0)  # the range of every fit
_LOG_SCALES = (math.log(SCALES[0]), math.log(SCALES[1]))
OFFSETS = (-50.0, 50.0)
SHARED_PRIOR = 1.0  # keeps the fit finite where no image is positive, and has no effect otherwise
MAX_PAIRS = 4_000_000  # enough to fit two numbers


class Platt(NamedTuple):
    """A fit: the calibrated logit is scale · logit + offset."""

    scale: float
    offset: float


def fit_calibration(
    logits: Array,
    targets: Targets,
    known: Known = None,
    *,
    kind: Kind,
    activation: Activation = "sigmoid",
    prior_positives: float = 16.0,
) -> Calibration:
    """Fit the calibration of a tagger.

    Args:
        logits: (n, N), of images that were held out of training.
        targets: (n, N), 0 or 1, dense or sparse.
        known: (n, N) bool, dense or sparse; unknown pairs are left out.
        kind: "shared" for one scale and offset, "per-class" for one of each per class. A softmax takes only "shared",
            which is then a temperature: a shared offset changes nothing there.
        activation: What turns logits into scores.
        prior_positives: How many positives the prior weighs; 0 for no prior. Of 0, 1, 2, 4, … 32, tried on photographs
            with 80 labels, 16 and 32 gave the best log-likelihood on images that were not used for the fit, and of
            these two 16 gave the smaller calibration error.
    """
    check_shapes(logits, targets, known)
    if activation == "softmax":
        if kind == "per-class":
            raise DataError("with a softmax all classes share one temperature: take the kind 'shared'.")
        return Calibration(scale=_fit_softmax(logits, targets))
    every = slice(None, None, -(-logits.size // MAX_PAIRS))
    seen = None if known is None else flags_by_image(known, every)
    shared = fit_platt(*_pairs(logits[every], flags_by_image(targets, every), seen), prior_positives=SHARED_PRIOR)
    if kind == "shared":
        return Calibration(*shared)
    own = _fit_classes(logits, targets, known, shared, prior_positives)
    # A class starts from the shared calibration, and its prior is to leave that unchanged.
    scales = tuple(fit.scale * shared.scale for fit in own)
    offsets = tuple(fit.scale * shared.offset + fit.offset for fit in own)
    return Calibration(*shared, scales, offsets)


def _fit_classes(logits: Array, targets: Targets, known: Known, shared: Platt, prior_positives: float) -> list[Platt]:
    """Fit every class to its logits as the shared fit calibrates them."""
    by_class, known_by_class = sliced_by_class(targets), sliced_by_class(known)

    def block(start: int, stop: int) -> list[Platt]:
        values, truth = scores_by_class(logits, start, stop), flags_by_class(by_class, start, stop)
        seen = None if known_by_class is None else flags_by_class(known_by_class, start, stop)
        fits = []
        for line in range(stop - start):
            pairs = _pairs(values[line], truth[line], None if seen is None else seen[line])
            fits.append(fit_platt(shared.scale * pairs[0] + shared.offset, pairs[1], prior_positives=prior_positives))
        return fits

    return list(chain.from_iterable(in_blocks(block, logits.shape[1], logits.shape[0])))


def fit_platt(logits: Array, positive: Array, *, prior_positives: float) -> Platt:
    """Fit scale s and offset o of logits (m,) to labels (m,), with a prior for s = 1 and o = 0.

    It minimises Σ softplus(±(s·z + o)) + ½ · prior_positives · (log² s + o²) over log s and o: twice the scale is as
    far from 1 as half the scale. A positive image adds about 1 to the curvature in o, so the prior weighs as much as
    `prior_positives` of them.
    """
    values, truth = np.asarray(logits, np.float64), np.asarray(positive, bool)

    def objective(point: Array) -> tuple[float, Array]:
        log_scale, offset = point
        scaled = np.exp(log_scale) * values
        calibrated = scaled + offset
        error = _sigmoid(calibrated) - truth
        loss = np.logaddexp(0, np.where(truth, -calibrated, calibrated)).sum()
        loss += 0.5 * prior_positives * (log_scale**2 + offset**2)
        slope = [error @ scaled + prior_positives * log_scale, error.sum() + prior_positives * offset]
        return float(loss), np.array(slope)

    found = minimize(
        objective,
        [0.0, 0.0],
        jac=True,
        method="L-BFGS-B",
        bounds=[_LOG_SCALES, OFFSETS],
        options={"ftol": 1e-12, "gtol": 1e-7, "maxiter": 500},
    )
    return Platt(float(np.exp(found.x[0])), float(found.x[1]))


def _fit_softmax(logits: Array, targets: Targets) -> float:
    """Fit 1 / temperature to the images that have exactly one label; of very many, to evenly spaced ones."""
    every = slice(None, None, -(-logits.size // MAX_PAIRS))
    logits, truth = logits[every], flags_by_image(targets, every)
    rows = np.flatnonzero(truth.sum(axis=1) == 1)
    if not len(rows):
        raise DataError("no image has exactly one label, so no temperature can be fitted. Use calibration 'none'.")
    values, right = np.asarray(logits[rows], np.float64), truth[rows].argmax(axis=1)
    values -= values.max(axis=1, keepdims=True)
    chosen = values[np.arange(len(rows)), right]

    def loss(log_scale: float) -> float:
        scale = np.exp(log_scale)
        return float((np.log(np.exp(scale * values).sum(axis=1)) - scale * chosen).mean())

    found = minimize_scalar(loss, bounds=_LOG_SCALES, method="bounded", options={"xatol": 1e-6})
    return float(np.exp(found.x))


def _pairs(logits: Array, targets: Array, known: Array | None) -> tuple[Array, Array]:
    """Give the logits and labels of all known pairs, each (m,)."""
    if known is None:
        return logits.ravel(), targets.ravel()
    return logits[known], targets[known]


def _sigmoid(values: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * values)))
