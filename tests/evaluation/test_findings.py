"""Findings against literal loops."""

import numpy as np
import pytest
from sklearn.metrics import precision_recall_curve as reference_curve

from tagloom.evaluation.findings import (
    count_tags,
    errors_in_company,
    hardest_images,
    move_thresholds,
    precision_recall_curve,
    score_histograms,
    suspicious_labels,
)


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    targets = (rng.random((60, 5)) < 0.4).astype(np.uint8)
    scores = np.clip(0.5 * targets + rng.random((60, 5)) * 0.6, 0, 1).round(2).astype(np.float32)
    return scores, targets, rng.random((60, 5)) < 0.9, np.full(5, 0.45, np.float32)


def test_counts_are_those_of_a_loop(drawn) -> None:
    scores, targets, known, thresholds = drawn
    counts = count_tags(*drawn)
    for column in range(5):
        right = wrong = missed = 0
        for row in range(60):
            if known[row, column]:
                tagged, true = scores[row, column] > thresholds[column], targets[row, column] == 1
                right, wrong, missed = (
                    right + (tagged and true),
                    wrong + (tagged and not true),
                    missed + (true and not tagged),
                )
        assert (counts.right[column], counts.wrong[column], counts.missed[column]) == (right, wrong, missed)
        assert counts.precision[column] == pytest.approx(100 * right / (right + wrong))
        assert counts.recall[column] == pytest.approx(100 * right / (right + missed))
        assert counts.f1[column] == pytest.approx(200 * right / (2 * right + wrong + missed))


def test_curves_lie_on_scikit_learns(drawn) -> None:
    scores, targets, *_ = drawn
    recall, precision = precision_recall_curve(scores.ravel(), targets.ravel() > 0)
    theirs = {
        (round(r, 9), round(p, 9)) for p, r in zip(*reference_curve(targets.ravel(), scores.ravel())[:2], strict=True)
    }
    assert {(round(r, 9), round(p, 9)) for r, p in zip(recall.tolist(), precision.tolist(), strict=True)} <= theirs
    assert recall[-1] == 1


def test_histograms_count_every_known_pair_once(drawn) -> None:
    scores, targets, known, _ = drawn
    positive, negative = score_histograms(scores, targets, known)
    assert positive.sum() == ((targets > 0) & known).sum()
    assert negative.sum() == ((targets == 0) & known).sum()


def test_moving_thresholds_by_nothing_changes_nothing_and_up_gives_fewer_tags(drawn) -> None:
    moved = move_thresholds(*drawn, np.array([-0.2, 0.0, 0.2]))
    counts = count_tags(*drawn)
    assert moved[1].precision == pytest.approx(100 * counts.right.sum() / (counts.right + counts.wrong).sum())
    assert moved[0].tags > moved[1].tags > moved[2].tags
    assert moved[0].recall >= moved[1].recall >= moved[2].recall


def test_a_tag_that_rides_on_a_label_is_told_from_one_that_is_taken_for_it() -> None:
    """Of 100 images: tag 1 is guessed wherever label 0 is; tag 3 is put where label 2 was missed; 4 is anywhere."""
    targets, scores = np.zeros((100, 5), np.uint8), np.full((100, 5), 0.1, np.float32)
    targets[:40, 0], scores[:40, 0] = 1, 0.9
    targets[:20, 1], scores[:40, 1] = 1, 0.9
    targets[50:70, 2], scores[50:70, 3] = 1, 0.9
    scores[::10, 4] = 0.9
    found = errors_in_company(scores, targets, np.ones((100, 5), bool), np.full(5, 0.5, np.float32), 10)
    pairs = {(pair.label, pair.tag): pair for pair in found}
    rides, taken = pairs[0, 1], pairs[2, 3]
    assert (rides.images, rides.together, rides.instead) == (20, 50.0, 0)
    assert rides.expected == pytest.approx(20 / 80 * 20)
    assert (taken.images, taken.together, taken.instead) == (20, 0.0, 20)
    assert found[0] in (rides, taken)
    assert not errors_in_company(targets.astype(np.float32), targets, targets >= 0, np.full(5, 0.5, np.float32), 10)


def test_suspicious_labels_leave_unknown_pairs_out() -> None:
    scores = np.array([[0.99, 0.2], [0.1, 0.98], [0.97, 0.96]], np.float32)
    targets = np.array([[0, 0], [1, 0], [0, 1]], np.uint8)
    known = np.array([[False, True], [True, True], [True, True]])
    missing, wrong = suspicious_labels(scores, targets, known, 2)
    assert [(suspect.row, suspect.column) for suspect in missing] == [(1, 1), (2, 0)]
    assert [(suspect.row, suspect.column, round(suspect.score, 2)) for suspect in wrong] == [(1, 0, 0.1), (2, 1, 0.96)]


def test_the_hardest_image_is_the_least_likely_one(drawn) -> None:
    scores, targets, known, _ = drawn
    hardest = hardest_images(scores, targets, known, 3)
    likely = np.where(targets > 0, scores, 1 - scores).clip(1e-7)
    losses = [-sum(np.log(likely[row, known[row]])) for row in range(60)]
    assert [image.row for image in hardest] == np.argsort(losses)[::-1][:3].tolist()
    assert hardest[0].loss == pytest.approx(max(losses), rel=1e-5)
