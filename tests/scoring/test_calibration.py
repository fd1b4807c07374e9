"""Calibrated scores are probabilities as far as the held-out images can tell, and order images as before."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from tagloom.errors import DataError, TaggerError
from tagloom.metrics import average_precision, top1_accuracy
from tagloom.scoring.calibration import Calibration, to_scores
from tagloom.scoring.calibration_fit import Beta, fit_beta, fit_calibration

SCALES, OFFSETS = np.array([1.0, 1.5, 2.0]), np.array([-3.0, -2.0, -2.5])
BENDS = np.array([0.5, 1.0, 2.0])


def planted(images: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits (n, 3) that are right only after `SCALES · bent + OFFSETS`, and labels drawn from what is right."""
    rng = np.random.default_rng(seed)
    logits = (rng.normal(-1.0, 2.5, (images, 3)) / SCALES).astype(np.float32)
    right = SCALES * (BENDS * np.log1p(np.exp(logits)) - np.log1p(np.exp(-logits))) + OFFSETS
    return logits, (rng.random(right.shape) < expit(right)).astype(np.uint8)


def literal_objective(point, logits, positive, prior):
    scale, offset, bend = math.exp(point[0]), point[1], math.exp(point[2])
    loss = 0.5 * prior * (math.log(scale) ** 2 + offset**2 + math.log(bend) ** 2)
    for value, truth in zip(logits.tolist(), positive.tolist(), strict=True):
        sloped = bend * math.log1p(math.exp(value)) - math.log1p(math.exp(-value))
        probability = 1 / (1 + math.exp(-(scale * sloped + offset)))
        loss -= math.log(probability if truth else 1 - probability)
    return loss


def test_planted_scales_offsets_and_bends_are_found_again_per_class():
    logits, targets = planted(40_000)
    found = fit_calibration(logits, targets, kind="per-class", prior_positives=0)
    np.testing.assert_allclose(found.scales, SCALES, rtol=0.05)
    np.testing.assert_allclose(found.offsets, OFFSETS, atol=0.15)
    np.testing.assert_allclose(found.bends, BENDS, rtol=0.1)
    drawn = fit_calibration(logits, targets, kind="per-class")  # classes that have less in common than any real ones
    apart = to_scores(logits, "sigmoid", drawn) - to_scores(logits, "sigmoid", found)
    assert np.abs(apart).mean() < 0.01


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
def test_a_planted_temperature_that_all_share_is_found_again(temperature):
    rng = np.random.default_rng(1)
    right = rng.normal(-1.0, 2.0, (10_000, 4))
    targets = rng.random(right.shape) < expit(right)
    found = fit_calibration(right * temperature, targets, kind="shared")
    np.testing.assert_allclose(to_scores(right * temperature, "sigmoid", found), expit(right), atol=0.02)
    assert found.scales == ()


def test_without_a_prior_the_fit_is_logistic_regression_on_both_sides_of_zero():
    logits, targets = planted(2000)
    for column in range(3):
        values = logits[:, column].astype(float)
        sides = np.stack([-np.logaddexp(0, -values), np.logaddexp(0, values)], axis=1)
        ours = fit_beta(values, targets[:, column], prior_positives=0)
        theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(sides, targets[:, column])
        assert ours.scale == pytest.approx(theirs.coef_[0, 0], rel=1e-3)
        assert ours.scale * ours.bend == pytest.approx(theirs.coef_[0, 1], rel=1e-3)
        assert ours.offset == pytest.approx(theirs.intercept_[0], abs=1e-3)


def test_with_a_prior_the_fit_minimises_what_it_says():
    logits, targets = planted(60)
    ours = fit_beta(logits[:, 0], targets[:, 0], prior_positives=4.0)
    arguments = (logits[:, 0], targets[:, 0], 4.0)
    options = {"xatol": 1e-6, "fatol": 1e-9, "maxiter": 5000}
    theirs = minimize(literal_objective, [0.0, 0.0, 0.0], args=arguments, method="Nelder-Mead", options=options)
    np.testing.assert_allclose(ours, (math.exp(theirs.x[0]), theirs.x[1], math.exp(theirs.x[2])), atol=1e-3)


def test_the_class_fit_starts_from_the_shared_one():
    logits, targets = planted(300)
    found = fit_calibration(logits, targets, kind="per-class", prior_positives=2.0)
    shared = fit_calibration(logits, targets, kind="shared")
    assert (found.scale, found.offset, found.bend) == (shared.scale, shared.offset, shared.bend)
    start = Beta(shared.scale, shared.offset, shared.bend)
    own = fit_beta(logits[:, 1], targets[:, 1], prior_positives=2.0, prior=start)
    assert (found.scales[1], found.offsets[1], found.bends[1]) == own
    held = fit_beta(logits[:, 1], targets[:, 1], prior_positives=1e9, prior=start)
    np.testing.assert_allclose(held, start, rtol=1e-4)


def test_classes_with_few_positives_stay_near_what_all_share():
    logits, targets = planted(3000)
    rare = logits[:, :1] - 6
    positives = np.zeros_like(rare, np.uint8)
    positives[rare.argmax()] = 1  # separated perfectly by its one positive: alone it would want an endless scale
    never = np.zeros_like(positives)
    found = fit_calibration(np.hstack([logits, rare, rare]), np.hstack([targets, positives, never]), kind="per-class")
    np.testing.assert_allclose(found.scales[3:], found.scale, rtol=1.0)
    alone = fit_beta(rare[:, 0], positives[:, 0], prior_positives=0)
    assert alone.scale > 5 * found.scales[3]


def test_no_positive_at_all_gives_a_finite_calibration():
    found = fit_calibration(np.zeros((20, 2), np.float32), np.zeros((20, 2), np.uint8), kind="per-class")
    assert np.isfinite([*found.scales, *found.offsets]).all()
    assert to_scores(np.zeros((1, 2), np.float32), "sigmoid", found).max() < 0.5


def test_asymmetric_scores_are_mended_by_an_offset_and_not_by_a_temperature():
    rng = np.random.default_rng(2)
    right = rng.normal(-4.0, 2.0, (4000, 1))
    targets = (rng.random(right.shape) < expit(right)).astype(np.uint8)
    shifted = (0.5 * right + 1.5).astype(np.float32)  # nearly everything scores over a half
    frequency = targets.mean()
    ours = to_scores(shifted, "sigmoid", fit_calibration(shifted, targets, kind="shared"))
    assert ours.mean() == pytest.approx(frequency, abs=0.01)
    best = min(
        abs(to_scores(shifted, "sigmoid", Calibration(scale=s)).mean() - frequency) for s in np.geomspace(0.02, 50)
    )
    assert best > 0.2


def test_unknown_pairs_say_nothing():
    logits, targets = planted(400)
    known = np.random.default_rng(3).random(logits.shape) < 0.6
    found = fit_calibration(logits, targets, known, kind="per-class")
    spoilt = fit_calibration(np.where(known, logits, 99), np.where(known, targets, 1), known, kind="per-class")
    assert spoilt == found
    alone = fit_beta(logits[:, 0][known[:, 0]], targets[:, 0][known[:, 0]], prior_positives=0)
    free = fit_calibration(logits, targets, known, kind="per-class", prior_positives=0)
    np.testing.assert_allclose((free.scales[0], free.offsets[0], free.bends[0]), alone, rtol=1e-2)


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 20), st.floats(-20, 20))
def test_every_label_orders_images_as_before(seed, scale, offset):
    rng = np.random.default_rng(seed)
    logits = rng.permuted(np.linspace(-0.7, 0.7, 50)[:, None].repeat(3, axis=1), axis=0).astype(np.float32)
    targets = rng.random(logits.shape) < 0.4
    targets[0] = True
    calibration = Calibration(1.0, 0.0, (scale, 1.0, 2.0), (offset * min(scale, 1), -1.0, 3.0), bends=(0.3, 1.0, 5.0))
    scores = to_scores(logits, "sigmoid", calibration)
    # Where a score comes so near to 1 that float32 holds no number between, images may tie: not within these limits.
    if scores.max() < 0.999:
        np.testing.assert_array_equal(average_precision(scores, targets), average_precision(logits, targets))


def test_scores_are_those_of_scipy():
    logits = np.random.default_rng(4).normal(0, 30, (20, 5)).astype(np.float32)
    np.testing.assert_allclose(to_scores(logits, "sigmoid"), expit(logits), rtol=1e-5, atol=1e-30)
    np.testing.assert_allclose(to_scores(logits, "softmax"), softmax(logits, axis=1), rtol=1e-4, atol=1e-30)
    calibration = Calibration(0.5, -1.0)
    np.testing.assert_allclose(
        to_scores(logits, "sigmoid", calibration), expit(0.5 * logits - 1.0), rtol=1e-5, atol=1e-30
    )
    own = Calibration(0.5, -1.0, (1.0, 2.0, 3.0, 4.0, 5.0), (0.0, 1.0, 2.0, 3.0, 4.0))
    wanted = expit(logits * np.arange(1.0, 6) + np.arange(5.0))
    np.testing.assert_allclose(to_scores(logits, "sigmoid", own), wanted, rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_a_softmax_gets_a_temperature_and_keeps_its_best_class(temperature):
    rng = np.random.default_rng(5)
    right = rng.normal(0, 2, (5000, 4))
    answers = (softmax(right, axis=1).cumsum(axis=1) > rng.random((5000, 1))).argmax(axis=1)
    targets = np.eye(4, dtype=np.uint8)[answers]
    logits = (right * temperature).astype(np.float32)
    found = fit_calibration(logits, targets, kind="shared", activation="softmax")
    assert 1 / found.scale == pytest.approx(temperature, rel=0.06)
    assert found.offset == 0
    before, after = to_scores(logits, "softmax"), to_scores(logits, "softmax", found)
    assert top1_accuracy(before, targets) == top1_accuracy(after, targets)
    np.testing.assert_allclose(after.sum(axis=1), 1, rtol=1e-5)


def test_a_softmax_has_no_scales_of_its_classes_and_needs_images_of_one_label():
    logits, targets = planted(20)
    with pytest.raises(DataError, match="'shared'"):
        fit_calibration(logits, targets, kind="per-class", activation="softmax")
    with pytest.raises(DataError, match="exactly one label"):
        fit_calibration(logits, np.zeros_like(targets), kind="shared", activation="softmax")


def test_very_many_pairs_are_thinned_out_for_what_is_shared(monkeypatch):
    logits, targets = planted(3000)
    whole = fit_calibration(logits, targets, kind="shared")
    monkeypatch.setattr("tagloom.scoring.calibration_fit.MAX_PAIRS", 900)
    thinned = fit_calibration(logits, targets, kind="shared")
    assert thinned == fit_calibration(logits[::10], targets[::10], kind="shared")
    assert thinned.scale == pytest.approx(whole.scale, rel=0.3)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"scale": 0.0}, "scales and bends must lie"),
        ({"scale": -1.0}, "scales and bends must lie"),
        ({"scale": math.nan}, "scales and bends must lie"),
        ({"offset": math.inf}, "offsets must lie"),
        ({"offset": math.nan}, "offsets must lie"),
        ({"scales": (1.0,)}, "1 scales do not fit 0 offsets"),
        ({"scales": (1.0, -2.0), "offsets": (0.0, 0.0)}, "scales and bends must lie"),
        ({"scales": (1.0,), "offsets": (1e9,)}, "offsets must lie"),
        ({"bend": 0.0}, "scales and bends must lie"),
        ({"bends": (1.0,)}, "1 bends do not fit 0 scales"),
        ({"scales": (1.0,), "offsets": (0.0,), "bends": (-1.0,)}, "scales and bends must lie"),
    ],
)
def test_numbers_that_come_from_no_training_are_refused(values, message):
    with pytest.raises(TaggerError, match=message):
        Calibration(**values)
