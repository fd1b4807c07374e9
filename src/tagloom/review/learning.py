"""Learning from answers in seconds: a linear correction of the tagger's logits, on features that are computed once.

    logit' = logit + x · W + b

With few answers the correction is small and the tagger's own knowledge stays. A label that the tagger does not know
starts from nothing, and is learned from answers and the labels of the table alone. Unknown pairs are left out.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit

from tagloom.data.packed.images import ImageFile
from tagloom.extras import needs_train
from tagloom.progress import Progress, no_progress

RECIPE = "quick-gap"
"""Whose backbone and pooled features are learned from, so that a training with this recipe has them in its cache."""
PENALTY = 0.3
"""On the squares of W, for features of length 1. Less hurts where a tagger knows the labels, more where it does not."""
BIAS_PENALTY = 0.05
RARE = -4.0
"""The logit of a label about which nothing is known: most labels are on few photos."""
STEPS = 60
_CLOSEST = 1e-4  # to 0 and 1: a score beyond would take many answers to be corrected


class Correction(NamedTuple):
    """What was learned: W (D, N) and b (N,)."""

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]

    def scores(self, features: NDArray[np.float32], logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Give corrected scores (n, N)."""
        found: NDArray[np.float32] = expit(logits + features @ self.weights + self.bias)
        return found


def first_logits(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Turn the tagger's scores (n, N) into logits; NaN, for labels that it does not know, into those of rare labels."""
    known = logit(np.clip(scores.astype(np.float64), _CLOSEST, 1 - _CLOSEST))
    return np.where(np.isnan(scores), RARE, known).astype(np.float32)


def learn(
    features: NDArray[np.float32],
    logits: NDArray[np.float32],
    targets: NDArray[np.bool_],
    known: NDArray[np.bool_],
) -> Correction:
    """Fit the correction by maximum likelihood with a penalty on its size.

    Args:
        features: (m, D), as `pooled_features` gives them.
        logits: (m, N), to be corrected.
        targets: (m, N), whether a label applies.
        known: (m, N), whether that is known.
    """
    width, classes = features.shape[1], logits.shape[1]
    wanted, counted = targets.astype(np.float32), known.astype(np.float32)

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        parameters = flat.reshape(width + 1, classes).astype(np.float32)
        weights, bias = parameters[:width], parameters[width]
        moved = logits + features @ weights + bias
        wrong = (expit(moved) - wanted) * counted
        value = ((np.logaddexp(0, moved) - wanted * moved) * counted).sum(dtype=np.float64)
        value += 0.5 * (PENALTY * np.square(weights).sum() + BIAS_PENALTY * np.square(bias).sum())
        slope = np.vstack([features.T @ wrong + PENALTY * weights, wrong.sum(0) + BIAS_PENALTY * bias])
        return float(value), slope.ravel().astype(np.float64)

    start = np.zeros((width + 1) * classes)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x
    fitted = found.reshape(width + 1, classes).astype(np.float32)
    return Correction(fitted[:width], fitted[width])


class Pooled(NamedTuple):
    """Features (n, D) of the images that could be read, each about of length 1, and their rows."""

    rows: NDArray[np.int64]
    features: NDArray[np.float32]


def pooled_features(
    images: Sequence[ImageFile], *, cache_folder: Path, device: str = "auto", progress: Progress = no_progress
) -> Pooled:
    """Give the pooled features of images, from the cache or through the backbone; needs torch.

    Raises:
        MissingExtraError: If torch is not installed.
    """
    with needs_train("learning from answers"):
        from tagloom.models.network import build_network, pick_device
        from tagloom.training.features.extract import extract_features
        from tagloom.training.signals import StopRequest
    from tagloom.recipe import load_recipe

    recipe = load_recipe(RECIPE)
    network = build_network(
        backbone=recipe.backbone.name,
        weights=recipe.backbone.weights,
        head=recipe.head.name,
        head_options=recipe.head.options,
        classes=1,
        size=recipe.preprocess.size,
        frozen=True,
    )
    found = extract_features(
        network,
        images,
        recipe.preprocess,
        cache_folder=cache_folder,
        device=pick_device(device),
        stop=StopRequest(),
        progress=progress,
    )
    pooled = found.features.gather(np.arange(len(found.rows)))[0].astype(np.float32)
    return Pooled(found.rows, standardised(pooled))


def standardised(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Give features (n, D) a mean of 0, and the same spread in every direction."""
    spread = features.std(0) + 1e-6
    scaled: NDArray[np.float32] = (features - features.mean(0)) / (spread * np.sqrt(features.shape[1]))
    return scaled.astype(np.float32)
