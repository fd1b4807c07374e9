"""On MS-COCO's counts the co-occurrence graph gives the parts that CPSD's authors published, with τ = 2."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from tagloom.labels.graph import partition, partition_counts

COCO = json.loads((Path(__file__).parents[1] / "fixtures" / "coco-2014-counts.json").read_text())
LABELS = COCO["labels"]
# Of the published parts as sorted lists of names: the parts themselves are not ours to ship.
PUBLISHED = {2: "8b775ca889113c12", 3: "c9fc03fea007fcfd", 5: "9642a5f1a4d0b4b4", 8: "6d99a8f0033dedb8"}


def counts() -> np.ndarray:
    upper = np.zeros((80, 80), np.int64)
    for row, values in enumerate(COCO["counts"]):
        upper[row, row:] = values
    return upper + np.triu(upper, 1).T


def digest(parts: list[list[int]]) -> str:
    named = sorted(sorted(LABELS[column] for column in part) for part in parts)
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()[:16]


@pytest.mark.parametrize("k", PUBLISHED)
def test_co_parts_of_coco_are_the_published_ones_with_tau_2(k: int) -> None:
    assert digest(partition_counts(counts(), k=k, kind="co", tau=2.0)) == PUBLISHED[k]


def test_with_the_printed_tau_of_3_five_parts_are_others() -> None:
    assert digest(partition_counts(counts(), k=5, kind="co", tau=3.0)) != PUBLISHED[5]


def test_counts_give_the_parts_of_the_labels_that_were_counted() -> None:
    labels = (np.random.default_rng(0).random((300, 12)) < 0.3).astype(np.int64)
    together = labels.T @ labels
    for kind in ("co", "dis"):
        wanted = partition(labels, k=3, kind=kind)
        assert partition_counts(together, k=3, kind=kind) == wanted
        assert partition_counts(csr_array(together), k=3, kind=kind) == wanted
