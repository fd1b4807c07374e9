"""Which photos come first."""

import numpy as np

from tagloom.review.order import compact, most_useful_first, possible_errors


def test_doubtful_labels_come_first_and_the_most_doubtful_of_all() -> None:
    scores = np.array([[0.5, 0.5], [0.97, 0.1], [0.2, 0.99], [0.9, 0.05]], np.float32)
    targets = np.array([[0, 0], [0, 0], [0, 0], [1, 0]], bool)
    known = np.array([[0, 0], [1, 1], [1, 1], [1, 1]], bool)
    order = most_useful_first(scores, targets, known, np.arange(4))
    assert order[:2] == [2, 1]
    assert order[2:] == [0, 3], "then the uncertain one, then the one that everybody agrees about"


def test_a_label_without_a_score_is_no_doubt() -> None:
    scores = np.array([[np.nan], [0.5]], np.float32)
    errors = possible_errors(scores, np.array([[1], [0]], bool), np.array([[1], [0]], bool))
    assert errors.tolist() == [[0.0], [0.5]]


def test_of_a_burst_of_photos_few_come_early_and_all_photos_come_once() -> None:
    rng = np.random.default_rng(0)
    is_burst = np.arange(300) < 150
    points = np.where(is_burst[:, None], 0.01, 1.0) * rng.normal(0, 10, (300, 8)).astype(np.float32)
    scores = rng.uniform(0, 1, (300, 3)).astype(np.float32)
    nothing = np.zeros(scores.shape, bool)
    order = most_useful_first(scores, nothing, nothing, np.arange(300), points.astype(np.float32))
    assert sorted(order) == list(range(300))
    assert is_burst[order[:20]].mean() < 0.25, "at random it would be half of them"


def test_only_the_rows_asked_for_are_ordered() -> None:
    scores = np.full((10, 2), 0.4, np.float32)
    nothing = np.zeros(scores.shape, bool)
    assert sorted(most_useful_first(scores, nothing, nothing, np.array([3, 7]))) == [3, 7]
    assert most_useful_first(scores, nothing, nothing, np.array([], np.int64)) == []


def test_groups_that_have_an_answer_come_after_those_that_have_none() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], 100)
    points = (np.array([[0.0, 0.0], [50.0, 0.0]])[group] + rng.normal(0, 0.1, (200, 2))).astype(np.float32)
    scores = np.full((200, 2), 0.4, np.float32)
    nothing = np.zeros(scores.shape, bool)
    rows = np.arange(60, 200)  # sixty of the first group are answered
    order = most_useful_first(scores, nothing, nothing, rows, points)
    assert (group[order[:20]] == 1).mean() > 0.8


def test_compact_keeps_what_tells_photos_apart() -> None:
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 200))
    reduced = compact(seen.astype(np.float32))
    before, after = (np.linalg.norm(each[:50, None] - each[None, :50], axis=-1) for each in (seen, reduced))
    assert np.allclose(before, after, rtol=1e-3, atol=1e-2)
