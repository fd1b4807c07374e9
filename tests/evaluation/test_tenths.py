"""Several taggers on one table: tenths of classes, and all against the first."""

import numpy as np
import pytest

from tagloom.errors import DataError
from tagloom.evaluation.compare import compare_scores, shared_classes
from tagloom.evaluation.label_pairs import count_pairs, cross_label_gaps
from tagloom.evaluation.tenths import Tenths

CLASSES = tuple(f"class-{number:02}" for number in range(20))


def tenths_of(precision: np.ndarray) -> Tenths:
    return Tenths(CLASSES[: precision.shape[1]], (9,) * precision.shape[1], precision, [])


def test_a_tenth_is_the_classes_with_the_highest_or_lowest_precision_of_each_tagger():
    precision = np.random.default_rng(0).permuted(np.tile(np.arange(20.0), (3, 1)), axis=1)
    tenths = tenths_of(precision)
    assert tenths.size == 2
    for best, limit in ((True, 18), (False, 1)):
        inside = precision >= limit if best else precision <= limit
        assert (tenths.members(best) == inside).all()
        assert set(tenths.columns(best)) == set(np.flatnonzero(inside.any(axis=0)).tolist())


def test_classes_that_most_taggers_find_hard_come_first():
    precision = np.tile(np.arange(10.0, 30.0), (3, 1))
    precision[2, [0, 5]] = precision[2, [5, 0]]  # the third tagger is worst at another class
    tenths = tenths_of(precision)
    assert tenths.columns(best=False) == [1, 0, 5]
    assert [entry["in_tenth_of"] for entry in tenths.to_dict()["worst"]] == [3, 2, 1]


def test_a_few_classes_have_a_tenth_too():
    assert tenths_of(np.ones((2, 3))).size == 1


def test_classes_that_all_taggers_share_are_compared_and_the_one_that_shares_none_is_named():
    assert shared_classes("abcd", "dcb", "cxb") == ("b", "c")
    with pytest.raises(DataError, match="the third tagger shares no class with those before it"):
        shared_classes("ab", "bc", "ac")


def test_against_one_reference_every_tagger_has_its_own_counts_and_gaps():
    rng = np.random.default_rng(1)
    targets = (rng.random((200, 6)) < 0.3).astype(np.uint8)
    noise = rng.normal(size=(3, *targets.shape))
    scores = [0.5 * targets + noise[0], 1.5 * targets + noise[1], 0.1 * targets + noise[2]]
    better, worse = (compare_scores(scores[0], other, targets, classes="abcdef", resamples=0) for other in scores[1:])
    assert better.total.first == worse.total.first
    assert count_pairs(better).improved > count_pairs(better).worsened
    assert count_pairs(worse).worsened > count_pairs(worse).improved
    (gap,), (other,) = (cross_label_gaps(comparison, [("a", "b")]) for comparison in (better, worse))
    assert gap.first == other.first
    assert gap.second != other.second
