"""A promise holds as often as it says: counts against brute force, coverage by simulation with known precision."""

import numpy as np
import pytest
from scipy.stats import beta

from tagloom.errors import TaggerError
from tagloom.scoring.promise import (
    FEWEST,
    RISK,
    ClassCounts,
    HeldOutCounts,
    _chance_of,
    count_held_out,
    promised_thresholds,
)
from tagloom.scoring.tags import tag_rule
from tagloom.scoring.thresholds import NEVER


def drawn(images, labels, slopes, seed):
    """Uniform scores s, each label true with chance slope · s: the precision above t is exactly slope · (1 + t) / 2."""
    generator = np.random.default_rng(seed)
    scores = generator.random((images, labels)).astype(np.float32)
    return scores, (generator.random(scores.shape) < np.asarray(slopes) * scores).astype(np.uint8)


def test_counts_are_those_of_a_plain_loop():
    scores, targets = drawn(300, 3, [1.0, 0.3, 0.001], seed=0)
    scores = np.round(scores, 2)  # ties
    known = np.random.default_rng(1).random(scores.shape) < 0.8
    counts = count_held_out(scores, targets, known)
    assert counts.images == 300
    for column, found in enumerate(counts.classes):
        values, labels = scores[known[:, column], column], targets[known[:, column], column]
        assert found.positives == labels.sum()
        for threshold, images, right in zip(found.thresholds, found.images, found.found, strict=True):
            assert images == (values > np.float32(threshold)).sum()
            assert right == labels[values > np.float32(threshold)].sum()
    assert counts.classes[0].images[0] >= FEWEST
    assert counts.classes[0].images[-1] == (scores[known[:, 0], 0] > 0).sum()
    assert counts.classes[2].thresholds == ()  # too few positives for any promise


@pytest.mark.parametrize(("found", "images"), [(29, 29), (28, 29), (45, 46), (60, 70), (1, 3)])
def test_the_test_is_the_bound_of_clopper_and_pearson(found, images):
    bound = beta.ppf(RISK, found, images - found + 1)
    assert _chance_of(found, images, bound) == pytest.approx(RISK)


def test_of_the_labels_that_are_promised_a_precision_no_more_than_five_percent_break_it():
    slopes = np.repeat([1.0, 0.9, 0.8], [40, 80, 80])  # the precision of the last ones is below 0.8 everywhere
    promised = broken = 0
    for seed in range(40):
        limits = promised_thresholds(count_held_out(*drawn(600, 200, slopes, seed)), precision=0.8)
        given = limits < NEVER
        promised += given.sum()
        broken += (given & (slopes * (1 + limits) / 2 < 0.8)).sum()
    assert promised > 40 * 20, "most labels that can keep the promise are promised"
    assert broken <= RISK * promised


def test_recall_is_kept_by_95_percent_of_labels():
    promised = broken = 0
    for seed in range(20):
        limits = promised_thresholds(count_held_out(*drawn(400, 100, [1.0], seed)), recall=0.9)
        promised += (limits < NEVER).sum()
        broken += ((1 - limits.astype(np.float64) ** 2) < 0.9).sum()  # of density 2s above the threshold
    assert promised == 2000
    assert broken <= RISK * promised


def test_more_is_promised_from_more_images_and_less_of_a_higher_precision():
    def limits(images, precision):
        return promised_thresholds(count_held_out(*drawn(images, 30, [1.0], 3)), precision=precision)

    assert (limits(4000, 0.8) < NEVER).all()
    assert limits(4000, 0.8).mean() < limits(600, 0.8).mean()
    assert limits(4000, 0.7).mean() < limits(4000, 0.8).mean()
    assert (limits(4000, 0.999) == NEVER).all()


def test_a_rule_names_what_it_cannot_promise_and_never_tags_it():
    scores, targets = drawn(2000, 2, [1.0, 0.1], seed=5)
    rule = tag_rule(["sure", "unsure"], np.zeros(2), "multi", precision=0.8, held_out=count_held_out(scores, targets))
    assert rule.left_out == ("unsure",)
    assert [tag.label for tag in rule.tags(np.float32([0.99, 1.0]))] == ["sure"]
    few = tag_rule(
        ["sure", "unsure"], np.zeros(2), "multi", recall=0.8, max_tags=1, held_out=count_held_out(scores, targets)
    )
    assert len(few.tags(np.float32([0.99, 1.0]))) == 1


def test_what_cannot_be_promised_is_refused_with_the_way_out():
    counts = HeldOutCounts(3, (ClassCounts(),))
    with pytest.raises(TaggerError, match=r"--promise-on"):
        tag_rule(["cat"], np.zeros(1), "multi", precision=0.9)
    with pytest.raises(TaggerError, match="leave out threshold"):
        tag_rule(["cat"], np.zeros(1), "multi", precision=0.9, threshold=0.5, held_out=counts)
    with pytest.raises(TaggerError, match="one of them"):
        promised_thresholds(counts, precision=0.9, recall=0.9)
    for wanted in (0.0, 1.0, float("nan")):
        with pytest.raises(TaggerError, match="cannot be promised"):
            promised_thresholds(counts, precision=wanted)


@pytest.mark.parametrize(
    ("thresholds", "images", "found"),
    [((0.5,), (5, 6), (1, 2)), ((0.5, 0.6), (5, 6), (1, 2)), ((0.5, 0.4), (6, 5), (1, 1)), ((0.5,), (1,), (2,))],
)
def test_counts_from_a_file_that_cannot_be_true_are_refused(thresholds, images, found):
    with pytest.raises(TaggerError, match="held_out"):
        ClassCounts(2, thresholds, images, found)
