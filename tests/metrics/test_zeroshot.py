"""Zero-shot figures against plain loops and scikit-learn."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import average_precision_score

from tagloom.errors import DataError
from tagloom.metrics import zero_shot_score

RNG = np.random.default_rng(0)
SCORES = RNG.random((40, 12))
TARGETS = (RNG.random((40, 12)) < 0.2).astype(np.uint8)
TARGETS[:, 4] = 0
UNSEEN = [1, 4, 7, 10, 11, 2]
PARTS = {"ZSL": UNSEEN, "GZSL": list(range(12)), "seen": [0, 3, 5, 6, 8, 9]}


def f1_by_loops(columns: list[int], k: int) -> float:
    """Every image gets exactly its k best of these labels."""
    hits = chosen = positives = 0
    for scores, truth in zip(SCORES, TARGETS, strict=True):
        best = sorted(columns, key=lambda column: -scores[column])[:k]
        hits += sum(int(truth[column]) for column in best)
        chosen += len(best)
        positives += sum(int(truth[column]) for column in columns)
    precision, recall = hits / chosen, hits / positives
    return 100 * 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("form", [np.asarray, lambda rows: csr_array(rows)], ids=["dense", "sparse"])
def test_every_part_equals_plain_loops(part, form):
    figures = zero_shot_score(SCORES, form(TARGETS), UNSEEN)[part]
    columns = PARTS[part]
    each = [average_precision_score(TARGETS[:, c], SCORES[:, c]) for c in columns if TARGETS[:, c].any()]
    assert figures["mAP"] == pytest.approx(100 * np.mean(each))
    for k in (3, 5):
        assert figures[f"F1@{k}"] == pytest.approx(f1_by_loops(columns, k))
    assert sorted(figures["columns"]) == sorted(columns)


def test_labels_without_a_positive_are_named_and_count_in_no_mean():
    result = zero_shot_score(SCORES, TARGETS, UNSEEN)
    assert result["ZSL"]["columns_without_positive"] == result["GZSL"]["columns_without_positive"] == [4]
    assert result["ZSL"]["AP"][UNSEEN.index(4)] is None
    assert result["seen"]["columns_without_positive"] == []


def test_unknown_pairs_count_nowhere():
    known = np.ones_like(TARGETS, dtype=bool)
    known[:20] = False
    half = zero_shot_score(SCORES[20:], TARGETS[20:], UNSEEN)
    masked = zero_shot_score(SCORES, TARGETS, UNSEEN, known)
    for part in PARTS:
        assert masked[part]["mAP"] == pytest.approx(half[part]["mAP"])
        assert masked[part]["F1@3"] == pytest.approx(half[part]["F1@3"])


def test_no_positive_of_an_unseen_label_at_all_is_said():
    with pytest.raises(DataError, match="no image has a known positive"):
        zero_shot_score(SCORES, TARGETS, [4])
