"""The paired bootstrap against scikit-learn on images that were really drawn again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from tagloom.evaluation import bootstrap as resampling
from tagloom.evaluation.bootstrap import resampled_differences, weighted_average_precision
from tagloom.metrics import average_precision


@st.composite
def weighted_classes(draw):
    """Scores with many ties, flags with at least one positive, and three weightings."""
    images = draw(st.integers(1, 25))
    scores = draw(st.lists(st.integers(0, 6), min_size=images, max_size=images))
    flags = draw(st.lists(st.booleans(), min_size=images, max_size=images).filter(any))
    weights = draw(st.lists(st.integers(0, 3), min_size=3 * images, max_size=3 * images))
    return np.array(scores) / 6, np.array(flags), np.array(weights, np.uint8).reshape(images, 3)


@given(weighted_classes())
def test_a_weight_counts_an_image_as_often_as_repeating_it_would(case):
    scores, flags, weights = case
    found = weighted_average_precision(scores, flags, weights)
    for weighting, value in zip(weights.T, found, strict=True):
        rows = np.repeat(np.arange(len(scores)), weighting)
        if flags[rows].any():
            assert value == pytest.approx(average_precision(scores[rows, None], flags[rows, None])[0])
        else:
            assert np.isnan(value)


def drawn_case(images: int = 40, labels: int = 3):
    rng = np.random.default_rng(5)
    positive = rng.random((images, labels)) < 0.3
    first, second = rng.random((2, images, labels)).round(1)
    return first, second, positive


def test_both_taggers_are_measured_on_the_same_drawn_images():
    first, second, positive = drawn_case()
    known = np.random.default_rng(6).random(positive.shape) < 0.8
    found = resampled_differences(first, second, positive & known, known, resamples=7, seed=3)
    rng = np.random.default_rng(3)
    for resample in range(7):
        rows = rng.integers(len(first), size=len(first))
        for label in range(first.shape[1]):
            seen = rows[known[rows, label]]
            after = average_precision_score(positive[seen, label], second[seen, label])
            before = average_precision_score(positive[seen, label], first[seen, label])
            assert found[label, resample] == pytest.approx(after - before)


def test_working_in_blocks_changes_nothing(monkeypatch):
    first, second, positive = drawn_case()
    whole = resampled_differences(first, second, positive, None, resamples=10, seed=0)
    monkeypatch.setattr(resampling, "_BLOCK_ELEMENTS", 3 * len(first))
    np.testing.assert_array_equal(resampled_differences(first, second, positive, None, resamples=10, seed=0), whole)


def test_no_resamples_give_an_empty_table():
    first, second, positive = drawn_case()
    assert resampled_differences(first, second, positive, None, resamples=0, seed=0).shape == (3, 0)
