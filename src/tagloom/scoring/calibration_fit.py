"""Finding scale, offset and bend of a calibration on labelled images that the network was not trained on.

The fit minimises the negative log-likelihood of the labels, and a prior pulls each class's numbers towards those that
all classes share. The prior weighs about as much as `prior_positives` positive images. So it decides for
classes with a handful of positives, which would otherwise be calibrated by chance (a class that is separated perfectly
would want an infinite scale), and hardly matters for classes with many. The shared scale, offset and bend have almost
no prior, because losses shift scores far.
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
MAX_PAIRS = 4_000_000  # enough to fit three numbers


class Beta(NamedTuple):
    """A fit: the calibrated logit is scale · bent(logit, bend) + offset."""

    scale: float = 1.0
    offset: float = 0.0
    bend: float = 1.0


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
        kind: "shared" for one scale, offset and bend, "per-class" for one of each per class. A softmax takes only
            "shared", which is then a temperature: a shared offset changes nothing there.
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
    pairs = _pairs(logits[every], flags_by_image(targets, every), seen)
    shared = fit_beta(*pairs, prior_positives=SHARED_PRIOR)
    if kind == "shared":
        return Calibration(shared.scale, shared.offset, bend=shared.bend)
    scales, offsets, bends = zip(*_fit_classes(logits, targets, known, shared, prior_positives), strict=True)
    return Calibration(shared.scale, shared.offset, scales, offsets, shared.bend, bends)


def _fit_classes(logits: Array, targets: Targets, known: Known, shared: Beta, prior_positives: float) -> list[Beta]:
    """Fit every class, from what all share."""
    by_class, known_by_class = sliced_by_class(targets), sliced_by_class(known)

    def block(start: int, stop: int) -> list[Beta]:
        values, truth = scores_by_class(logits, start, stop), flags_by_class(by_class, start, stop)
        seen = None if known_by_class is None else flags_by_class(known_by_class, start, stop)
        fits = []
        for line in range(stop - start):
            pairs = _pairs(values[line], truth[line], None if seen is None else seen[line])
            fits.append(fit_beta(*pairs, prior_positives=prior_positives, prior=shared))
        return fits

    return list(chain.from_iterable(in_blocks(block, logits.shape[1], logits.shape[0])))


def fit_beta(logits: Array, positive: Array, *, prior_positives: float, prior: Beta = Beta()) -> Beta:  # noqa: B008
    """Fit scale, offset and bend of logits (m,) to labels (m,), with a prior for those that are given.

    With the prior's S, O and B it minimises Σ softplus(±(s · (S · bent(z, b · B) + O) + o)) + ½ · prior_positives ·
    (log² s + o² + log² b) over log s, o and log b: twice the scale is as far from 1 as half the scale. A positive image
    adds about 1 to the curvature in o, so the prior weighs as much as `prior_positives` of them.
    """
    values, truth = np.asarray(logits, np.float64), np.asarray(positive, bool)
    above = np.logaddexp(0, values)

    def objective(point: Array) -> tuple[float, Array]:
        log_scale, offset, log_bend = point
        scale, bend = np.exp(log_scale), prior.bend * np.exp(log_bend)
        scaled = scale * (prior.scale * (values + (bend - 1) * above) + prior.offset)
        calibrated = scaled + offset
        error = _sigmoid(calibrated) - truth
        loss = np.logaddexp(0, np.where(truth, -calibrated, calibrated)).sum()
        loss += 0.5 * prior_positives * (point @ point)
        slope = [error @ scaled, error.sum(), scale * prior.scale * bend * (error @ above)]
        return float(loss), np.array(slope) + prior_positives * point

    straight = -math.log(prior.bend)  # it starts there: where the bend is near 0, the slope along it is too
    found = minimize(
        objective,
        np.array([0.0, 0.0, straight]),
        jac=True,
        method="L-BFGS-B",
        bounds=[_LOG_SCALES, OFFSETS, (straight + _LOG_SCALES[0], straight + _LOG_SCALES[1])],
        options={"ftol": 1e-12, "gtol": 1e-7, "maxiter": 500},
    )
    scale, offset, bend = float(np.exp(found.x[0])), float(found.x[1]), float(np.exp(found.x[2]))
    return Beta(scale * prior.scale, scale * prior.offset + offset, bend * prior.bend)


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
