"""Thousands of labels: sparse flags, scores in files and blocks give what dense arrays in memory give."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from tagloom import scratch
from tagloom.data.pair_flags import PairFlags
from tagloom.errors import DataError
from tagloom.metrics import blocks, calibration_figures, long_tail, score, zero_shot_score
from tagloom.scoring import calibration as calibrating
from tagloom.scoring.calibration import to_scores
from tagloom.scoring.calibration_fit import fit_calibration
from tagloom.scoring.promise import count_held_out
from tagloom.scoring.thresholds import choose_thresholds
from tagloom.scratch import scratch_array, scratch_like


@pytest.fixture
def drawn():
    rng = np.random.default_rng(3)
    targets = rng.random((90, 7)) < 0.3
    logits = (rng.normal(size=(90, 7)) + 2 * targets).astype(np.float32)
    usual = rng.random(7) < 0.5
    known = (rng.random((90, 7)) < 0.2) ^ usual
    return logits, targets, known, PairFlags(usual, csr_array(known ^ usual))


def everything(logits, targets, known):
    """Measure and choose all that a tagger needs."""
    scores = to_scores(logits, "sigmoid")
    return {
        "score": score(scores, targets, known),
        "calibration": calibration_figures(scores, targets, known),
        "unseen": zero_shot_score(scores, targets, [1, 4], known),
        "fit": vars(fit_calibration(logits, targets, known, kind="per-class")),
        "thresholds": choose_thresholds(scores, targets, known).tolist(),
        "counts": repr(count_held_out(scores, targets, known)),
    }


def test_sparse_flags_give_what_dense_ones_give(drawn):
    logits, targets, known, flags = drawn
    np.testing.assert_array_equal(flags.toarray(), known)
    assert everything(logits, csr_array(targets), flags) == everything(logits, targets, known)


def test_small_blocks_give_what_one_block_gives(drawn, monkeypatch):
    logits, targets, known, flags = drawn
    whole = everything(logits, targets, known)
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", 20)
    monkeypatch.setattr(calibrating, "BLOCK_ELEMENTS", 20)
    pieces = everything(logits, csr_array(targets), flags)
    assert pieces["calibration"].pop("log_loss") == pytest.approx(whole["calibration"].pop("log_loss"), rel=1e-12)
    assert pieces == whole


def test_scores_of_logits_in_a_file_are_in_a_file_that_vanishes(drawn, monkeypatch, tmp_path):
    logits, targets, known, _ = drawn
    monkeypatch.setattr(scratch, "IN_MEMORY", 100)
    stored = scratch_array(logits.shape, np.float32, tmp_path)
    stored[:] = logits
    scores = to_scores(stored, "sigmoid")
    assert isinstance(stored, np.memmap)
    assert isinstance(scores, np.memmap)
    assert isinstance(scratch_like(stored[:50], np.float32), np.memmap)
    np.testing.assert_array_equal(scores, to_scores(logits, "sigmoid"))
    assert everything(stored, targets, known) == everything(logits, targets, known)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_named(tmp_path):
    with pytest.raises(DataError, match=r"4000000\.0 GB are needed .* Make room there"):
        scratch_array((10**9, 10**6), np.float32, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_small_array_needs_no_file(tmp_path):
    assert not isinstance(scratch_array((3, 4), np.float32, tmp_path), np.memmap)


def test_the_long_tail_is_that_of_a_loop():
    rng = np.random.default_rng(0)
    positives = rng.integers(0, 200, 60).tolist()
    precision = [None if rng.random() < 0.2 else float(value) for value in rng.random(60) * 100]
    for row, (low, high) in zip(long_tail(precision, positives), [(101, 10**9), (20, 100), (0, 19)], strict=True):
        inside = [index for index, count in enumerate(positives) if low <= count <= high]
        measured = [precision[index] for index in inside if precision[index] is not None]
        assert (row["classes"], row["measured"]) == (len(inside), len(measured))
        assert row["mAP"] == pytest.approx(sum(measured) / len(measured))
    with pytest.raises(DataError, match="3 numbers of training images do not fit 2 classes"):
        long_tail([1.0, 2.0], [1, 2, 3])
