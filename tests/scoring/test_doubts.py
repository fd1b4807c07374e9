"""Doubts: labels made wrong on purpose come first, and the counts are those of a plain loop."""

import numpy as np
import pytest

from tagloom.scoring.doubts import find_doubts


def labelled(seed=0, images=2000, flips=40):
    """Calibrated scores of five classes, labels drawn from them, and labels with some flipped."""
    generator = np.random.default_rng(seed)
    scores = generator.beta(0.15, 0.6, (images, 5)).astype(np.float32).clip(1e-4, 1 - 1e-4)
    truth = (generator.random(scores.shape) < scores).astype(np.uint8)
    said = truth.copy()
    said.ravel()[generator.choice(truth.size, flips, replace=False)] ^= 1
    return scores, truth, said


def test_wrong_labels_come_first():
    scores, truth, said = labelled()
    wrong = truth != said
    doubts = find_doubts(scores, said, None, list("abcde"), count=40)
    precision = wrong[doubts.rows, doubts.columns].mean()
    assert precision > 20 * wrong.mean()
    assert (np.diff(doubts.chances) <= 0).all()
    assert ((doubts.chances > 0) & (doubts.chances < 1)).all()


def test_counts_are_those_of_a_plain_loop():
    scores, _, said = labelled(1)
    for column, found in enumerate(find_doubts(scores, said, None, list("abcde"), count=1).classes):
        yes = [score for score, label in zip(scores[:, column], said[:, column], strict=True) if label]
        no = [score for score, label in zip(scores[:, column], said[:, column], strict=True) if not label]
        present, absent = np.mean(yes), np.mean(no)
        assert found.positives == len(yes)
        assert found.wrong == sum(score <= absent for score in yes)
        assert found.missing == sum(score >= present for score in no)


def test_unknown_pairs_and_classes_without_a_counterpart_are_not_doubted():
    scores, _, said = labelled(2, images=60)
    said[:, 4] = 1
    known = np.random.default_rng(0).random(scores.shape) < 0.5
    doubts = find_doubts(scores, said, known, list("abcde"), count=10_000)
    assert known[doubts.rows, doubts.columns].all()
    assert len(doubts.rows) == known[:, :4].sum()
    assert 4 not in doubts.columns


@pytest.mark.parametrize("count", [1, 7, 1000])
def test_the_first_doubts_do_not_depend_on_how_many_are_asked_for(count):
    scores, _, said = labelled(3, images=50)
    every = find_doubts(scores, said, None, list("abcde"), count=250)
    some = find_doubts(scores, said, None, list("abcde"), count=count)
    assert some.rows.tolist() == every.rows[:count].tolist()
    assert some.columns.tolist() == every.columns[:count].tolist()
