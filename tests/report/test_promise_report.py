"""What the terminal says of a promise: how many labels, from what, and what would help."""

import numpy as np
import pytest

from tagloom.report.promise import describe_left_out
from tagloom.scoring.promise import HeldOutCounts, count_held_out, promised_thresholds
from tagloom.scoring.thresholds import NEVER


@pytest.fixture
def counts() -> HeldOutCounts:
    """Two labels that are always right above 0.8, two that are right in 92 % of the cases, two that never are."""
    generator = np.random.default_rng(0)
    scores = generator.random((600, 6)).astype(np.float32)
    right = np.array([1, 1, 0.92, 0.92, 0.01, 0.01])
    targets = (scores > 0.8) & (generator.random(scores.shape) < right)
    return count_held_out(scores, targets.astype(np.uint8))


def test_what_is_left_out_comes_with_the_reason_and_with_lower_promises(counts):
    limits = promised_thresholds(counts, precision=0.9)
    left_out = [f"label {column}" for column in np.flatnonzero(limits >= NEVER)]
    assert len(left_out) == 4
    said = describe_left_out(left_out, counts, precision=0.9, recall=None)
    assert said.startswith(
        "precision 0.9 can be promised of 2 of 6 labels, from 600 held-out images. Left out: 'label 2'"
    )
    assert "the least that proves 0.9 is 29 tags of a label, all right" in said.lower()
    assert "0.6 for 4" in said, "the two that are right in 92 % of the cases"
    assert "--promise-on" in said


def test_a_recall_is_proved_by_images_with_the_label(counts):
    said = describe_left_out(["label 4", "label 5"], counts, precision=None, recall=0.8)
    assert said.startswith("recall 0.8 can be promised of 4 of 6 labels")
    assert "the least that proves 0.8 is 14 images with a label, all found" in said.lower()


def test_nothing_is_offered_where_nothing_lower_would_help():
    counts = count_held_out(np.full((50, 1), 0.5, np.float32), np.zeros((50, 1), np.uint8))
    assert "lower" not in describe_left_out(["x"], counts, precision=0.9, recall=None)
