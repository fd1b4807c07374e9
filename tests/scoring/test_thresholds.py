"""Thresholds, against brute force over every cut point."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

from tagloom.errors import DataError, RecipeError
from tagloom.metrics import score
from tagloom.scoring.thresholds import NEVER, SHARED_GRID, choose_thresholds

Case = tuple[np.ndarray, np.ndarray, np.ndarray]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Probabilities with ties, zeros and ones among them, targets and known; class 0 has a known positive."""
    shape = draw(st.tuples(st.integers(1, 12), st.integers(1, 4)))
    scores = draw(arrays(np.float32, shape, elements=st.integers(0, 10).map(lambda step: step / 10)))
    targets, known = draw(arrays(np.uint8, shape, elements=st.integers(0, 1))), draw(arrays(bool, shape))
    targets[0, 0], known[0, 0] = 1, True
    return scores, targets, known


def random_case(images: int = 400, classes: int = 12, seed: int = 0) -> Case:
    generator = np.random.default_rng(seed)
    targets = (generator.random((images, classes)) < np.linspace(0.01, 0.3, classes)).astype(np.uint8)
    logits = generator.normal(size=targets.shape) + 2.5 * targets - 1.5 + generator.normal(size=classes)
    return (1 / (1 + np.exp(-logits))).astype(np.float32), targets, generator.random(targets.shape) < 0.9


def measured(scores: np.ndarray, targets: np.ndarray, threshold: float) -> tuple[float, float, float]:
    """Precision, recall and F1 of one class at a threshold; the precision of no prediction is 0."""
    chosen = scores > threshold
    hits = float((targets[chosen] == 1).sum())
    positives = float(targets.sum())
    return (
        hits / chosen.sum() if chosen.any() else 0.0,
        hits / positives if positives else 0.0,
        2 * hits / (chosen.sum() + positives) if chosen.any() else 0.0,
    )


def every_cut(scores: np.ndarray) -> np.ndarray:
    levels = np.unique(np.concatenate([[0.0], scores, [1.0]]))
    return np.concatenate([levels, (levels[1:] + levels[:-1]) / 2])


@settings(deadline=None)
@given(cases())
def test_f1_thresholds_reach_the_best_f1_of_all_cuts(case: Case) -> None:
    scores, targets, known = case
    thresholds = choose_thresholds(scores, targets, known, aim="f1", prior_positives=0)
    assert thresholds.dtype == np.float32
    assert ((thresholds >= 0) & (thresholds <= 1)).all()
    for column in range(scores.shape[1]):
        seen = known[:, column]
        one, truth = scores[seen, column], targets[seen, column]
        if truth.any():
            best = max(measured(one, truth, cut)[2] for cut in every_cut(one))
            assert measured(one, truth, thresholds[column])[2] == pytest.approx(best)


@settings(deadline=None)
@given(cases(), st.sampled_from([0.0, 0.3, 0.5, 2 / 3, 0.9, 1.0]))
def test_precision_thresholds_give_the_most_recall_at_the_floor_or_the_most_precision(case: Case, floor: float) -> None:
    scores, targets, known = case
    thresholds = choose_thresholds(scores, targets, known, aim="precision", value=floor)
    for column in range(scores.shape[1]):
        seen = known[:, column]
        one, truth = scores[seen, column], targets[seen, column]
        points = [measured(one, truth, cut) for cut in every_cut(one)]
        precision, recall, _ = measured(one, truth, thresholds[column])
        if not (one[truth == 1] > 0).any():
            assert thresholds[column] == NEVER
        elif any(p >= floor and r > 0 for p, r, _ in points):
            assert precision >= floor
            assert recall == max(r for p, r, _ in points if p >= floor)
        else:
            assert precision == max(p for p, _, _ in points)


def test_cuts_lie_halfway_between_neighbouring_scores() -> None:
    scores = np.array([[0.9], [0.6], [0.4], [0.1]], np.float32)
    targets = np.array([[1], [1], [0], [0]])
    assert choose_thresholds(scores, targets, prior_positives=0)[0] == pytest.approx(0.5)
    known = np.array([[True], [True], [False], [True]])
    assert choose_thresholds(scores, targets, known, prior_positives=0)[0] == pytest.approx(0.35)
    assert choose_thresholds(scores, targets, aim="precision", value=1.0)[0] == pytest.approx(0.5)


def test_a_cut_separates_even_adjacent_floats() -> None:
    for low in np.array([0.1, 0.5, 0.7], np.float32):
        high = np.nextafter(low, np.float32(1))
        threshold = choose_thresholds(np.array([[low], [high]]), np.array([[0], [1]]), prior_positives=0)[0]
        assert low <= threshold < high


def test_few_positives_draw_a_threshold_towards_the_shared_one() -> None:
    scores, targets, known = random_case()
    own = choose_thresholds(scores, targets, known, prior_positives=0)
    drawn = choose_thresholds(scores, targets, known)
    shared = choose_thresholds(scores, targets, known, prior_positives=1e9)
    assert np.ptp(shared) < 1e-4
    assert ((drawn - own) * (shared - drawn) >= -1e-6).all()
    positives = (targets * known).sum(axis=0)

    def logit(p: np.ndarray) -> np.ndarray:
        return np.log(p) - np.log1p(-p)

    moved = (logit(drawn) - logit(own)) / (logit(shared) - logit(own))
    np.testing.assert_allclose(moved, 3 / (positives + 3), rtol=1e-2)


def test_the_shared_threshold_has_the_best_mean_f1_on_its_grid() -> None:
    scores, targets, known = random_case()
    targets[:, 2] = 0  # gets the shared threshold and takes no part in choosing it
    thresholds = choose_thresholds(scores, targets, known)
    mean_f1 = [
        np.mean([measured(scores[known[:, c], c], targets[known[:, c], c], cut)[2] for c in range(12) if c != 2])
        for cut in SHARED_GRID
    ]
    assert mean_f1[int(np.argmin(np.abs(SHARED_GRID - thresholds[2])))] == pytest.approx(max(mean_f1))
    own = choose_thresholds(scores, targets, known, prior_positives=0)
    assert own[2] == pytest.approx(thresholds[2])


def test_chosen_thresholds_beat_a_fixed_one_on_the_images_they_were_chosen_on() -> None:
    scores, targets, known = random_case()
    chosen = score(scores, targets, known, choose_thresholds(scores, targets, known))
    fixed = score(scores, targets, known, choose_thresholds(scores, targets, known, aim="fixed", value=0.5))
    assert chosen["CF1"] > fixed["CF1"] + 1


def test_fixed_thresholds_are_all_the_value() -> None:
    scores, targets, known = random_case()
    thresholds = choose_thresholds(scores, targets, known, aim="fixed", value=0.3)
    np.testing.assert_array_equal(thresholds, np.full(12, 0.3, np.float32))


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_precisions_and_sparse_targets_are_welcome(dtype: Any) -> None:
    scores, targets, known = random_case()
    scores = scores.astype(np.float16)
    expected = choose_thresholds(scores.astype(np.float32), targets, known)
    np.testing.assert_array_equal(choose_thresholds(scores.astype(dtype), csr_array(targets), known), expected)


def test_logits_are_refused() -> None:
    scores, targets, known = random_case()
    for aim, value in (("f1", None), ("precision", 0.9)):
        with pytest.raises(DataError, match="sigmoid"):
            choose_thresholds(scores * 8 - 4, targets, known, aim=aim, value=value)


def test_without_a_positive_only_a_fixed_threshold_can_be_chosen() -> None:
    scores, targets, _ = random_case()
    with pytest.raises(DataError, match="'fixed'"):
        choose_thresholds(scores, targets * 0)


@pytest.mark.parametrize(
    ("aim", "value", "message"),
    [
        ("f2", None, "unknown aim of thresholds 'f2'"),
        ("f1", 0.5, "take no value"),
        ("precision", None, "need a value"),
        ("precision", 1.5, "from 0 to 1"),
        ("fixed", None, "need a value"),
        ("fixed", float("nan"), "from 0 to 1"),
    ],
)
def test_aims_and_values_that_cannot_work_are_refused(aim: Any, value: float | None, message: str) -> None:
    scores, targets, known = random_case()
    with pytest.raises(RecipeError, match=message):
        choose_thresholds(scores, targets, known, aim=aim, value=value)
