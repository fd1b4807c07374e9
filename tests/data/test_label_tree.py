"""A dog is an animal: in tables, in scores and in thresholds, against literal loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tagloom.data import LabelTable, load_table
from tagloom.data.label_tree import LabelTree, parents_of_paths
from tagloom.data.parsing.class_tree import read_class_tree
from tagloom.data.tree_labels import with_tree
from tagloom.errors import DataError

NAMES = ("a", "b", "c", "d", "e", "f")
POSITIVE, NEGATIVE, UNKNOWN = 1, 0, -1
trees = st.lists(st.integers(0, 5), min_size=6, max_size=6).map(
    # Parents stand before their children, so there are no loops; a class that is its own parent has none.
    lambda above: {NAMES[child]: NAMES[parent] for child, parent in enumerate(above) if parent < child}
)
marks = st.lists(st.lists(st.sampled_from([1, 0, -1]), min_size=6, max_size=6), min_size=1, max_size=5)


def above(name, parents):
    """List the classes above a class."""
    return [parents[name], *above(parents[name], parents)] if name in parents else []


def table_of(rows, unlisted, *, negatives_stated):
    values = np.array(rows)
    other = values == (UNKNOWN if unlisted == "negative" else NEGATIVE)
    images = [f"{row}.jpg" for row in range(len(rows))]
    return LabelTable(
        ".",  # type: ignore[arg-type]
        images,
        NAMES,
        csr_array(values == POSITIVE),
        csr_array(other),
        unlisted,
        negatives_stated=negatives_stated,
    )


def marks_of(table):
    targets, known = table.targets(slice(None)), table.known(slice(None))
    return np.where(known, targets.astype(int), UNKNOWN).tolist()


def completed(row, parents, *, negatives_stated, unlisted):
    """Complete one row by the rules, literally."""
    values = dict(zip(NAMES, row, strict=True))
    for name in NAMES:
        if values[name] == POSITIVE:
            values |= dict.fromkeys(above(name, parents), POSITIVE)
    if unlisted == "negative" and not negatives_stated:
        for name in NAMES:
            over = above(name, parents)
            lowest = next((other for other in over if values[other] == POSITIVE), None)
            if values[name] == NEGATIVE and lowest is not None:
                children = [child for child, parent in parents.items() if parent == lowest]
                if not any(values[child] == POSITIVE for child in children):
                    values[name] = UNKNOWN
    for name in NAMES:  # parents first
        if values[name] == UNKNOWN and any(values[other] == NEGATIVE for other in above(name, parents)):
            values[name] = NEGATIVE
    return [values[name] for name in NAMES]


@settings(max_examples=60, deadline=None)
@given(trees, marks, st.sampled_from(["negative", "unknown"]), st.booleans())
def test_a_table_is_completed_as_the_rules_say(parents, rows, unlisted, stated):
    table = with_tree(table_of(rows, unlisted, negatives_stated=stated), parents)
    expected = [completed(row, parents, negatives_stated=stated, unlisted=unlisted) for row in rows]
    assert marks_of(table) == expected
    assert marks_of(with_tree(table, parents)) == expected  # once more changes nothing


@given(trees, st.integers(0, 100))
def test_scores_and_thresholds_follow_the_tree(parents, seed):
    rng = np.random.default_rng(seed)
    scores, thresholds = rng.random((7, 6), np.float32), rng.random(6, np.float32)
    tree = LabelTree(NAMES, parents)
    raised, lowered = tree.consistent_scores(scores), tree.consistent_thresholds(thresholds)
    for column, name in enumerate(NAMES):
        below = [other for other in range(6) if other == column or name in above(NAMES[other], parents)]
        np.testing.assert_array_equal(raised[:, column], scores[:, below].max(axis=1))
        assert lowered[column] == thresholds[below].min()
    assert tree.violations(raised) == 0
    assert tree.violations(raised > lowered) == 0
    assert tree.levels.tolist() == [1 + len(above(name, parents)) for name in NAMES]


def test_classes_that_are_left_out_are_passed_over():
    tree = LabelTree(["husky", "animal"], {"husky": "dog", "dog": "animal"})
    assert tree.parent_names() == {"husky": "animal"}
    assert tree.paths == ("animal|husky", "animal")


def test_a_loop_is_refused():
    with pytest.raises(DataError, match="own parent"):
        LabelTree(["a", "b"], {"a": "b", "b": "a"})


def test_names_with_odd_signs_are_no_paths():
    assert parents_of_paths(["a|", "|b", "a||b", "|"]) == {}


def write(folder, table, tree):
    (folder / "t.csv").write_text(table, encoding="utf-8")
    (folder / "classes.yaml").write_text(tree, encoding="utf-8")
    return folder / "t.csv"


TREE = "animal: [dog, cat]\nfurniture:\n  sofa:\n  chair: [stool]\nperson:\n"


def test_a_list_of_names_takes_its_tree_from_classes_yaml(tmp_path):
    path = write(tmp_path, "image,labels\na.jpg,dog|stool\nb.jpg,animal\nc.jpg,\n", TREE)
    table = load_table(path)
    assert table.classes == ("animal", "dog", "cat", "furniture", "sofa", "chair", "stool", "person")
    assert marks_of(table) == [
        [1, 1, 0, 1, 0, 1, 1, 0],
        [1, -1, -1, 0, 0, 0, 0, 0],  # an animal, and nobody said which
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert any("tree of 3 levels" in line for line in table.understood)


def test_columns_need_none_for_the_classes_above(tmp_path):
    path = write(tmp_path, "image,dog,cat\na.jpg,0,1\nb.jpg,0,\nc.jpg,0,0\n", "animal: [dog, cat]\n")
    assert marks_of(load_table(path)) == [[1, 0, 1], [-1, 0, -1], [0, 0, 0]]
    sparse = write(tmp_path, "image,dog,cat\na.jpg,,1\nb.jpg,0,\nc.jpg,0,0\nd.jpg,,\ne.jpg,,\n", "animal: [dog, cat]\n")
    assert load_table(sparse).unlisted == "unknown"
    assert marks_of(load_table(sparse)) == [[1, -1, 1], [-1, 0, -1], [0, 0, 0], [-1] * 3, [-1] * 3]


def test_paths_are_a_tree_where_what_stands_above_is_a_class(tmp_path):
    (tmp_path / "t.jsonl").write_text(
        '{"image": "a.jpg", "labels": ["Animals|Dog"]}\n{"image": "b.jpg", "labels": ["Animals", "x|y"]}\n'
    )
    table = load_table(tmp_path / "t.jsonl")
    assert table.classes == ("Animals", "Animals|Dog", "x|y")
    assert marks_of(table) == [[1, 1, 0], [1, -1, 1]]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "no classes"),
        ("a: [b, b]", "'b' is there twice"),
        ("a: {b: [a]}", "'a' is there twice"),
        ("a: b", "Write the classes below a class as a list"),
        ("yes: [b]", "Put it in quotes"),
        ("a: [" * 40, "classes.yaml"),
        ("- a\n- [b]", "not the name of a class"),
        ("a: &x [b]\nc: *x", "aliases"),
    ],
)
def test_a_tree_that_makes_no_sense_is_refused(tmp_path, text, found):
    (tmp_path / "classes.yaml").write_text(text)
    with pytest.raises(DataError, match=found) as caught:
        read_class_tree(tmp_path / "classes.yaml")
    assert str(tmp_path / "classes.yaml") in str(caught.value)


def test_a_label_that_is_not_in_the_tree_is_refused(tmp_path):
    path = write(tmp_path, "image,labels\na.jpg,dgo\n", TREE)
    with pytest.raises(DataError, match=r"label 'dgo' is not one of the 8 classes. Nearest: 'dog'.*classes.yaml"):
        load_table(path)
