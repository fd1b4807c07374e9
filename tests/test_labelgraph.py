"""Label graphs: affinities as their definition says, parts as the graph shows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tagloom.errors import RecipeError
from tagloom.labelgraph import affinity, partition


def planted(blocks: int = 3, size: int = 4, images: int = 900, seed: int = 0) -> np.ndarray:
    """Images whose labels come from one block each."""
    rng = np.random.default_rng(seed)
    labels = np.zeros((images, blocks * size), np.uint8)
    for row in range(images):
        block = rng.integers(blocks)
        chosen = rng.choice(size, size=2, replace=False) + block * size
        labels[row, chosen] = 1
    return labels


@given(st.integers(0, 2**32 - 1), st.floats(0.5, 6.0))
def test_affinity_is_the_definition_written_as_loops(seed, tau):
    labels = (np.random.default_rng(seed).random((30, 5)) < 0.3).astype(np.uint8)
    labels[:, 4] = 0
    for kind in ("co", "dis"):
        expected = np.zeros((5, 5))
        for i in range(5):
            for j in range(5):
                both = sum(labels[row, i] and labels[row, j] for row in range(30))
                s_ij = both / max(labels[:, i].sum(), 1)
                s_ji = both / max(labels[:, j].sum(), 1)
                near = (s_ij ** (1 / tau) + s_ji ** (1 / tau)) / 2
                expected[i, j] = near if kind == "co" else 1 - near
        np.testing.assert_allclose(affinity(labels, kind, tau), expected, atol=1e-6)
        np.testing.assert_allclose(affinity(csr_array(labels), kind, tau), expected, atol=1e-6)


def test_the_co_graph_finds_planted_blocks():
    assert partition(planted(), k=3, kind="co") == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize("kind", ["co", "dis"])
def test_the_same_seed_gives_the_same_parts_and_every_label_is_in_one(kind):
    labels = (np.random.default_rng(1).random((400, 20)) < 0.2).astype(np.uint8)
    parts = partition(labels, k=5, kind=kind, seed=3)
    assert parts == partition(csr_array(labels), k=5, kind=kind, seed=3)
    assert sorted(label for part in parts for label in part) == list(range(20))


def test_a_number_of_parts_that_cannot_be_is_refused():
    with pytest.raises(RecipeError, match="from 1 to 12"):
        partition(planted(), k=13)
    assert partition(planted(), k=1) == [list(range(12))]
