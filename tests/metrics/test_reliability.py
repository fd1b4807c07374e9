"""Reliability curves and calibration errors, against scikit-learn's curves and sums written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.calibration import calibration_curve
from sklearn.metrics import log_loss as sklearn_log_loss

from tagloom.errors import DataError
from tagloom.metrics import calibration_figures, reliability_curves
from tagloom.metrics.reliability import BINNINGS, log_loss

STRATEGIES = {"equal-width": "uniform", "equal-mass": "quantile"}


def some_pairs(seed: int = 0, images: int = 300, labels: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.random((images, labels)) ** 3
    return scores, rng.random(scores.shape) < scores**0.7, rng.random(scores.shape) < 0.7


def literal_error(scores: np.ndarray, truth: np.ndarray, edges: np.ndarray) -> float:
    """ECE, bin by bin: a score belongs to the first bin whose upper edge it does not exceed."""
    total = 0.0
    for place in range(len(edges) - 1):
        inside = [
            (score, true)
            for score, true in zip(scores, truth, strict=True)
            if (place == 0 or score > edges[place]) and (place == len(edges) - 2 or score <= edges[place + 1])
        ]
        if inside:
            mean, share = np.mean([score for score, _ in inside]), np.mean([true for _, true in inside])
            total += len(inside) * abs(mean - share)
    return total / len(scores)


@pytest.mark.parametrize("binning", BINNINGS)
@pytest.mark.parametrize("bins", [1, 5, 15])
def test_curves_are_those_of_scikit_learn(binning, bins):
    scores, targets, known = some_pairs()
    overall, labels = reliability_curves(scores, targets, known, bins=bins, binning=binning)
    pairs = [(overall, scores[known], targets[known])]
    pairs += [(labels[c], scores[known[:, c], c], targets[known[:, c], c]) for c in range(4)]
    for curve, values, truth in pairs:
        frequency, mean = calibration_curve(truth, values, n_bins=bins, strategy=STRATEGIES[binning])
        np.testing.assert_allclose(curve.frequency, frequency)
        np.testing.assert_allclose(curve.score, mean)
        assert curve.pairs.sum() == len(values)


@given(st.integers(0, 10**6), st.integers(1, 20), st.sampled_from(BINNINGS), st.sampled_from([2, 3, 8]))
def test_errors_are_the_sums_written_out_ties_included(seed, bins, binning, steps):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, steps + 1, (30, 2)) / steps
    targets = rng.random(scores.shape) < 0.5
    even = np.linspace(0, 1, bins + 1)
    overall, labels = reliability_curves(scores, targets, bins=bins, binning=binning)
    for curve, values, truth in (
        (overall, scores.ravel(), targets.ravel()),
        *((labels[column], scores[:, column], targets[:, column]) for column in range(2)),
    ):
        edges = even if binning == "equal-width" else np.percentile(values, 100 * even)
        assert curve.error == pytest.approx(literal_error(values, truth, edges))


def test_scores_that_are_probabilities_have_nearly_no_error_and_shifted_ones_their_shift():
    rng = np.random.default_rng(1)
    scores = rng.uniform(0.0, 0.7, (50_000, 2))
    targets = rng.random(scores.shape) < scores
    for binning in BINNINGS:
        assert reliability_curves(scores, targets, binning=binning)[0].error < 0.006
        assert reliability_curves(scores + 0.3, targets, binning=binning)[0].error == pytest.approx(0.3, abs=0.01)


def test_unknown_pairs_count_nowhere():
    scores, targets, known = some_pairs()
    spoilt = np.where(known, scores, 0.5), np.where(known, targets, True), known
    assert calibration_figures(*spoilt) == calibration_figures(scores, targets, known)


def test_a_label_of_which_nothing_is_known_has_no_error():
    scores, targets, known = some_pairs()
    known[:, 2] = False
    figures = calibration_figures(scores, targets, known)
    for binning in BINNINGS:
        errors = figures[binning]["label_ECE"]
        assert errors[2] is None
        rest = [error for error in errors if error is not None]
        assert figures[binning]["mean_label_ECE"] == pytest.approx(np.mean(rest))


def test_the_figures_are_the_curve_in_percent():
    scores, targets, known = some_pairs()
    figures = calibration_figures(scores, targets, known, bins=7)
    for binning in BINNINGS:
        curve, labels = reliability_curves(scores, targets, known, bins=7, binning=binning)
        assert figures[binning]["ECE"] == pytest.approx(100 * curve.error)
        assert figures[binning]["label_ECE"] == pytest.approx([100 * label.error for label in labels])
        assert figures[binning]["pairs"] == curve.pairs.tolist()
    wanted = sklearn_log_loss(targets[known], scores[known], labels=[0, 1])
    assert figures["log_loss"] == pytest.approx(wanted, rel=1e-4)


def test_certain_and_wrong_costs_much_but_not_infinitely_much():
    assert log_loss(np.array([[1.0]]), np.array([[0]])) == pytest.approx(16.1, abs=0.1)


def test_sparse_targets_and_float32_scores_give_the_same():
    scores, targets, _ = some_pairs()
    scores = scores.astype(np.float32)
    for binning in BINNINGS:
        dense, sparse = (
            reliability_curves(scores, given, binning=binning)[0] for given in (targets, csr_array(targets))
        )
        np.testing.assert_array_equal(dense.frequency, sparse.frequency)


def test_bins_of_equal_mass_come_from_a_sample_where_pairs_are_very_many(monkeypatch):
    scores, targets, _ = some_pairs(images=4000)
    whole = reliability_curves(scores, targets, binning="equal-mass")[0]
    monkeypatch.setattr("tagloom.metrics.reliability.MAX_SAMPLE", 4000)
    sampled = reliability_curves(scores, targets, binning="equal-mass")[0]
    assert sampled.pairs.sum() == whole.pairs.sum() == 16_000
    assert sampled.error == pytest.approx(whole.error, abs=0.005)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bins": 0}, "bins is 0"),
        ({"binning": "equal-widht"}, "did you mean 'equal-width'"),
        ({"scores": np.array([[2.0], [0.5]])}, "from 0.5 to 2 were given"),
        ({"known": np.zeros((2, 1), bool), "binning": "equal-mass"}, "no pair is known"),
        ({"targets": np.zeros((3, 1))}, "both must be images x classes"),
    ],
)
def test_what_cannot_be_measured_is_refused(change, message):
    arguments = {"scores": np.array([[0.2], [0.5]]), "targets": np.array([[0], [1]])} | change
    with pytest.raises(DataError, match=message):
        reliability_curves(**arguments)
