"""Label graphs: affinities as their definition says, parts as the graph shows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tagloom.errors import RecipeError
from tagloom.labels.graph import affinity, nearness, partition, random_partition

BLOCKS = (9, 6, 4)
"""Sizes of the planted blocks: unequal, so that cutting into equal parts would not find them."""
ROLES = 3
"""Labels of one role never co-occur, in any block."""
BLOCK_OF = np.repeat(np.arange(len(BLOCKS)), BLOCKS)
ROLE_OF = np.concatenate([np.arange(size) % ROLES for size in BLOCKS])


def planted(images: int = 1500, seed: int = 0) -> np.ndarray:
    """Images of one label per role, four in five of them from the image's own block."""
    rng = np.random.default_rng(seed)
    labels = np.zeros((images, sum(BLOCKS)), np.uint8)
    for row in labels:
        home = rng.integers(len(BLOCKS))
        for role in range(ROLES):
            block = home if rng.random() < 0.8 else rng.integers(len(BLOCKS))
            row[rng.choice(np.flatnonzero((block == BLOCK_OF) & (role == ROLE_OF)))] = 1
    return labels


def members(of: np.ndarray) -> list[list[int]]:
    return [np.flatnonzero(of == number).tolist() for number in range(3)]


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


@pytest.mark.parametrize("seed", range(4))
def test_the_co_graph_finds_planted_blocks_of_unequal_size(seed):
    assert partition(planted(seed=seed), k=3, kind="co", seed=seed) == members(BLOCK_OF)


@pytest.mark.parametrize("seed", range(4))
def test_the_dis_graph_cuts_across_the_blocks_and_joins_what_never_co_occurs(seed):
    parts = partition(planted(seed=seed), k=3, kind="dis", seed=seed)
    assert parts == members(ROLE_OF)
    assert all(set(BLOCK_OF[part]) == {0, 1, 2} for part in parts)


@pytest.mark.parametrize("kind", ["co", "dis"])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_parts_cut_the_graph_at_least_as_well_as_scikit_learns(kind, k):
    cluster = pytest.importorskip("sklearn.cluster")
    labels = (np.random.default_rng(k).random((400, 30)) < np.linspace(0.05, 0.4, 30)).astype(np.uint8)
    labels[:, 5] |= labels[:, 20]
    near = np.maximum(affinity(labels, kind), 1e-6)

    def cut(parts):
        """The normalised cut that spectral clustering makes small."""
        outside = [near[part].sum() - near[np.ix_(part, part)].sum() for part in parts]
        whole = [near[part].sum() - near[part, part].sum() for part in parts]
        return sum(a / b for a, b in zip(outside, whole, strict=True))

    found = cluster.SpectralClustering(k, affinity="precomputed", random_state=0).fit_predict(near)
    theirs = [np.flatnonzero(found == number) for number in range(k)]
    assert cut(partition(labels, k=k, kind=kind)) <= 1.01 * cut(theirs)


@pytest.mark.parametrize("kind", ["co", "dis"])
def test_the_same_seed_gives_the_same_parts_and_every_label_is_in_one(kind):
    labels = (np.random.default_rng(1).random((400, 20)) < 0.2).astype(np.uint8)
    parts = partition(labels, k=5, kind=kind, seed=3)
    assert parts == partition(csr_array(labels), k=5, kind=kind, seed=3)
    assert sorted(label for part in parts for label in part) == list(range(20))


@pytest.mark.parametrize("kind", ["co", "dis"])
def test_labels_without_co_occurrence_or_images_are_split_too(kind):
    labels = planted()
    labels = np.hstack([labels, np.zeros((len(labels), 2), np.uint8)])  # two labels that no image has
    labels = np.vstack([labels, np.eye(21, dtype=np.uint8)[19:20]])  # now one of them has an image, of its own
    parts = partition(labels, k=4, kind=kind)
    assert sorted(label for part in parts for label in part) == list(range(21))


@given(st.integers(1, 60), st.data())
def test_random_parts_are_of_equal_size_but_for_one_and_follow_from_the_seed(count, data):
    k, seed = data.draw(st.integers(1, count)), data.draw(st.integers(0, 99))
    parts = random_partition(count, k, seed)
    assert parts == random_partition(count, k, seed)
    assert sorted(label for part in parts for label in part) == list(range(count))
    assert len(parts) == k
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert parts == sorted(sorted(part) for part in parts)


@given(st.integers(1, 60), st.data())
def test_random_cuts_leave_no_part_empty_and_follow_from_the_seed(count, data):
    k, seed = data.draw(st.integers(1, count)), data.draw(st.integers(0, 99))
    parts = random_partition(count, k, seed, "random")
    assert parts == random_partition(count, k, seed, "random")
    assert sorted(label for part in parts for label in part) == list(range(count))
    assert len(parts) == k
    assert all(parts)
    assert parts == sorted(sorted(part) for part in parts)


def test_every_way_to_cut_at_random_is_as_likely():
    # Of four labels in two parts, one is alone in two of the three possible cuts.
    alone = [min(map(len, random_partition(4, 2, seed, "random"))) == 1 for seed in range(600)]
    assert 0.6 < np.mean(alone) < 0.73
    with pytest.raises(RecipeError, match="did you mean 'random'"):
        random_partition(4, 2, 0, "rando")


def test_other_seeds_give_other_random_parts():
    assert len({str(random_partition(30, 5, seed)) for seed in range(5)}) == 5


def test_nearness_averages_pairs_of_different_labels():
    near = np.array([[1.0, 0.5, 0.2, 0.1], [0.5, 1.0, 0.4, 0.3], [0.2, 0.4, 1.0, 0.6], [0.1, 0.3, 0.6, 1.0]])
    found = nearness(near, [[0, 1], [2], [3]])
    np.testing.assert_allclose(found[0], [0.5, 0.3, 0.2])
    np.testing.assert_allclose(found, found.T)
    assert np.isnan(found[1, 1]), "one label has no pair"


def test_blocks_are_near_inside_and_far_between():
    labels = planted()
    found = nearness(affinity(labels), partition(labels, k=3))
    between = found[~np.eye(3, dtype=bool)]
    assert np.diag(found).min() > between.max()


def test_an_impossible_number_of_parts_is_refused():
    with pytest.raises(RecipeError, match="from 1 to 19"):
        partition(planted(), k=20)
    with pytest.raises(RecipeError, match="from 1 to 4"):
        random_partition(4, k=5)
    assert partition(planted(), k=1) == [list(range(19))]
    assert partition(planted(), k=19) == [[label] for label in range(19)]


def test_an_unknown_graph_or_tau_is_refused():
    with pytest.raises(RecipeError, match="Known: co, dis"):
        partition(planted(), kind="random")
    with pytest.raises(RecipeError, match="greater than 0"):
        affinity(planted(), tau=0.0)
