"""What is learned from answers: a correction that is small where there is little to learn from."""

import numpy as np
import pytest

from tagloom.review.learning import RARE, first_logits, learn, standardised


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    features = standardised(rng.normal(size=(400, 20)).astype(np.float32))
    truth = features @ rng.normal(size=(20, 3)) > 0
    return features, truth


def test_a_label_that_no_tagger_knows_is_learned_from_answers(data: tuple[np.ndarray, np.ndarray]) -> None:
    features, truth = data
    nothing = first_logits(np.full((400, 3), np.nan, np.float32))
    assert (nothing == RARE).all()
    found = learn(features[:300], nothing[:300], truth[:300], np.ones((300, 3), bool))
    assert ((found.scores(features[300:], nothing[300:]) > 0.5) == truth[300:]).mean() > 0.9


def test_unknown_pairs_teach_nothing(data: tuple[np.ndarray, np.ndarray]) -> None:
    features, truth = data
    known = np.random.default_rng(1).random(truth.shape) > 0.5
    logits = np.zeros(truth.shape, np.float32)
    one, other = (learn(features, logits, targets, known) for targets in (truth & known, truth | ~known))
    assert np.array_equal(one.weights, other.weights)


def test_answers_that_agree_with_the_tagger_change_next_to_nothing(data: tuple[np.ndarray, np.ndarray]) -> None:
    features, truth = data
    scores = np.where(truth, 0.99, 0.01).astype(np.float32)
    logits = first_logits(scores)
    found = learn(features[:10], logits[:10], truth[:10], np.ones((10, 3), bool))
    assert np.abs(found.scores(features, logits) - scores).max() < 0.05


def test_a_correction_reaches_photos_that_look_alike_and_not_others() -> None:
    features = np.eye(4, dtype=np.float32)[[0, 0, 1, 2]]
    logits = np.full((4, 1), 2.0, np.float32)
    found = learn(features[[0, 2]], logits[[0, 2]], np.array([[False], [True]]), np.ones((2, 1), bool))
    scores = found.scores(features, logits)[:, 0]
    assert scores[1] < 0.5 < scores[3]
    assert scores[1] == pytest.approx(scores[0])
