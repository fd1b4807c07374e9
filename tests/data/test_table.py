from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tagloom.data.table import LabelTable
from tagloom.errors import DataError


def make_table(dense, exceptions=None, unlisted="negative", classes=None):
    dense = np.array(dense, dtype=bool)
    names = classes or tuple(f"c{column}" for column in range(dense.shape[1]))
    return LabelTable(
        Path("photos"),
        [f"{row}.jpg" for row in range(len(dense))],
        tuple(names),
        csr_array(dense),
        None if exceptions is None else csr_array(np.array(exceptions, dtype=bool)),
        unlisted,
        source="labels.csv",
    )


@st.composite
def pair_kinds(draw):
    """(images, classes) of +1 positive, 0 negative, -1 unknown."""
    shape = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    cells = draw(st.lists(st.sampled_from([1, 0, -1]), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    return np.array(cells).reshape(shape)


@given(pair_kinds(), st.sampled_from(["negative", "unknown"]))
def test_positive_negative_and_unknown_are_distinguished_whichever_is_unlisted(kinds, unlisted):
    table = make_table(kinds == 1, kinds == (-1 if unlisted == "negative" else 0), unlisted)
    everything = slice(None)
    np.testing.assert_array_equal(table.targets(everything), kinds == 1)
    np.testing.assert_array_equal(table.known(everything), kinds != -1)
    assert table.targets(everything).dtype == np.uint8
    assert table.known(everything).dtype == np.bool_


def test_without_exceptions_all_unlisted_pairs_are_of_one_kind():
    dense = [[1, 0], [0, 0]]
    assert make_table(dense).known([0, 1]).all()
    np.testing.assert_array_equal(make_table(dense, unlisted="unknown").known([0, 1]), np.array(dense, dtype=bool))


@pytest.mark.parametrize("rows", [[2, 0], np.array([2, 0]), (2, 0), np.array([2, 0], dtype=np.uint8)])
def test_rows_come_in_the_order_asked_for(rows):
    table = make_table(np.eye(3))
    np.testing.assert_array_equal(table.targets(rows), [[0, 0, 1], [1, 0, 0]])
    assert table.select(rows).images == ["2.jpg", "0.jpg"]


def test_rows_may_be_a_mask_a_slice_or_empty():
    table = make_table(np.eye(3))
    assert table.select(np.array([True, False, True])).images == ["0.jpg", "2.jpg"]
    assert table.select(slice(1, None)).images == ["1.jpg", "2.jpg"]
    assert table.targets([]).shape == table.known([]).shape == (0, 3)
    with pytest.raises(DataError, match="mask"):
        table.targets(np.array([True]))


def test_selecting_keeps_unknowns_and_provenance():
    table = make_table([[1, 0], [0, 0]], [[0, 1], [0, 0]])
    part = table.select([0])
    np.testing.assert_array_equal(part.known([0]), [[True, False]])
    assert (part.source, part.classes, part.root) == (table.source, table.classes, table.root)


def test_a_path_starts_from_the_root_unless_it_is_absolute():
    table = LabelTable(Path("/data"), ["a.jpg", "/other/b.jpg"], ("x",), csr_array(np.zeros((2, 1), dtype=bool)))
    assert [table.path(0), table.path(1)] == [Path("/data/a.jpg"), Path("/other/b.jpg")]
    assert len(table) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ("a", "a")}, "occur twice: 'a'"),
        ({"classes": ("a", "")}, "class 2 has an empty name"),
        ({"images": ["one.jpg"]}, "1 images x 2 classes"),
        ({"positive": csr_array(np.zeros((2, 3), dtype=bool))}, "positive must be"),
        ({"positive": csr_array(np.zeros((2, 2)))}, "float64"),
        ({"exceptions": csr_array(np.zeros((3, 2), dtype=bool))}, "exceptions must be"),
        ({"exceptions": csr_array(np.eye(2, dtype=bool))}, "both as positive and as an exception"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(change, message):
    sound = {
        "root": Path(),
        "images": ["a.jpg", "b.jpg"],
        "classes": ("a", "b"),
        "positive": csr_array(np.eye(2, dtype=bool)),
    }
    LabelTable(**sound)
    with pytest.raises(DataError, match=message):
        LabelTable(**{**sound, **change})


def test_duplicate_and_false_entries_do_not_count_as_pairs():
    doubled = csr_array((np.array([True, True, False]), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2))
    table = LabelTable(Path(), ["a.jpg"], ("a", "b"), doubled)
    assert table.positive.nnz == 1
    assert doubled.nnz == 3  # the caller's matrix is left alone


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.95), st.integers(2, 60))
def test_a_split_uses_every_image_once_and_keeps_to_the_fraction(seed, fraction, count):
    rng = np.random.default_rng(seed)
    table = make_table(rng.random((count, 7)) < 0.2)
    first, second = table.split(fraction, seed)
    assert sorted(first.images + second.images) == sorted(table.images)
    assert len(second) == min(max(round(fraction * count), 1), count - 1)
    rows = [int(name.removesuffix(".jpg")) for name in second.images]
    assert rows == sorted(rows)
    np.testing.assert_array_equal(second.targets(slice(None)), table.targets(rows))


def test_a_split_leaves_rare_classes_on_both_sides():
    rng = np.random.default_rng(3)
    frequencies = np.geomspace(0.004, 0.5, 40)
    table = make_table(rng.random((1000, 40)) < frequencies)
    counts = table.targets(slice(None)).sum(axis=0)
    for seed in range(5):
        first, second = table.split(0.1, seed)
        for part in (first, second):
            present = part.targets(slice(None)).any(axis=0)
            assert present[counts >= 2].all()


def test_a_split_keeps_shares_better_than_chance_does():
    rng = np.random.default_rng(4)
    table = make_table(rng.random((1000, 40)) < np.geomspace(0.02, 0.5, 40))
    targets = table.targets(slice(None)).astype(int)

    def deviation(rows):
        return np.abs(targets[rows].sum(axis=0) / targets.sum(axis=0) - 0.1).mean()

    for seed in range(5):
        rows = [int(name.removesuffix(".jpg")) for name in table.split(0.1, seed)[1].images]
        assert deviation(rows) < 0.5 * deviation(rng.permutation(1000)[:100])


def test_a_split_depends_only_on_its_seed():
    table = make_table(np.random.default_rng(0).random((50, 5)) < 0.3)
    assert table.split(0.3, 7)[1].images == table.split(0.3, 7)[1].images
    assert table.split(0.3, 7)[1].images != table.split(0.3, 8)[1].images


@pytest.mark.parametrize(("count", "fraction"), [(10, 0.0), (10, 1.0), (10, -1.0), (1, 0.5)])
def test_a_split_that_leaves_a_part_empty_is_refused(count, fraction):
    with pytest.raises(DataError):
        make_table(np.ones((count, 1))).split(fraction, 0)


@given(pair_kinds(), st.randoms(use_true_random=False))
def test_reordering_classes_moves_labels_with_their_names(kinds, random):
    table = make_table(kinds == 1, kinds == -1)
    wanted = list(table.classes)
    random.shuffle(wanted)
    moved = table.with_classes(wanted)
    columns = [table.classes.index(name) for name in wanted]
    np.testing.assert_array_equal(moved.targets(slice(None)), table.targets(slice(None))[:, columns])
    np.testing.assert_array_equal(moved.known(slice(None)), table.known(slice(None))[:, columns])


@pytest.mark.parametrize("unlisted", ["negative", "unknown"])
@pytest.mark.parametrize("on_missing", ["negative", "unknown"])
def test_classes_the_table_lacks_are_what_the_caller_says(unlisted, on_missing):
    table = make_table([[1, 0], [0, 1]], unlisted=unlisted)
    wider = table.with_classes(["new", "c1", "c0"], on_missing)
    np.testing.assert_array_equal(wider.targets(slice(None)), [[0, 0, 1], [0, 1, 0]])
    assert (wider.known(slice(None))[:, 0] == (on_missing == "negative")).all()
    np.testing.assert_array_equal(wider.known(slice(None))[:, [2, 1]], table.known(slice(None)))


def test_classes_that_do_not_fit_are_named_with_the_nearest():
    table = make_table([[1, 1]], classes=("dog", "cat"))
    with pytest.raises(DataError, match=r"'dog' is not one of the 2 classes. Nearest: 'dogs'. The classes .* tagger"):
        table.with_classes(["cat", "dogs"])
    with pytest.raises(DataError, match=r"'dog' is not one of the 1 classes. Neither are 1 more of its labels"):
        table.with_classes(["bird"])
    with pytest.raises(DataError, match="on_extra must be 'error' or 'drop', found 'keep'"):
        table.with_classes(["cat", "dog"], on_extra="keep")
    with pytest.raises(DataError, match="no class 'bird'"):
        table.with_classes(["cat", "dog", "bird"], on_missing="error")
    with pytest.raises(DataError, match="found 'drop'"):
        table.with_classes(["cat", "dog", "bird"], on_missing="drop")
    with pytest.raises(DataError, match="occur twice: 'cat'"):
        table.with_classes(["cat", "dog", "cat"])


@given(pair_kinds(), st.sampled_from(["negative", "unknown"]), st.data())
def test_classes_that_the_order_lacks_can_be_dropped_with_their_labels(kinds, unlisted, data):
    table = make_table(kinds == 1, kinds == (-1 if unlisted == "negative" else 0), unlisted)
    wanted = data.draw(st.permutations([*table.classes, "new"]).map(lambda names: names[: len(names) // 2 + 1]))
    narrow = table.with_classes(wanted, on_extra="drop")
    assert narrow.classes == tuple(wanted)
    for column, name in enumerate(wanted):
        of_class = kinds[:, table.classes.index(name)] if name in table.classes else np.zeros(len(kinds))
        np.testing.assert_array_equal(narrow.targets(slice(None))[:, column], of_class == 1)
        np.testing.assert_array_equal(narrow.known(slice(None))[:, column], of_class != -1)


def test_dropping_every_class_leaves_images_without_labels():
    narrow = make_table([[1, 0], [0, 1]]).with_classes(["new"], on_extra="drop")
    assert narrow.images == ["0.jpg", "1.jpg"]
    assert narrow.positive.nnz == 0


def test_another_order_of_classes_counts_as_given():
    table = make_table([[1, 0]])
    assert not table.classes_given
    assert table.with_classes(["c1", "c0"]).classes_given
