"""Seen and unseen labels, from a file or drawn."""

import json

import pytest

from tagloom.errors import DataError
from tagloom.labels.split import read_split, split_to_score

CLASSES = ("ant", "bee", "cat", "dog", "elk")


def test_a_text_file_lists_the_unseen_in_any_order(tmp_path):
    (tmp_path / "unseen.txt").write_text("dog\n\nbee\n")
    assert read_split(str(tmp_path / "unseen.txt"), CLASSES) == (("ant", "cat", "elk"), ("bee", "dog"))


def test_the_file_of_nus_wide_names_them_as_test_classes(tmp_path):
    path = tmp_path / "benchmark_81_v0.json"
    path.write_text(json.dumps({"train class": ["ant"], "test class": ["elk", "cat"]}))
    assert read_split(str(path), CLASSES).unseen == ("cat", "elk")


def test_a_drawn_split_follows_from_its_seed():
    first = read_split("random:2:0", CLASSES)
    assert first == read_split("random:2", CLASSES)
    assert len(first.unseen) == 2
    assert sorted(first.seen + first.unseen) == sorted(CLASSES)
    assert len({read_split(f"random:2:{seed}", CLASSES) for seed in range(10)}) > 3


@pytest.mark.parametrize("seed", range(20))
def test_the_draw_of_the_training_is_found_again_whatever_the_scored_table_lacks(seed):
    given = f"random:2:{seed}"
    seen, unseen = read_split(given, CLASSES)
    for lacking in CLASSES:
        table = [name for name in reversed(CLASSES) if name != lacking]
        again = split_to_score(given, seen, table)
        assert again.seen == seen
        assert set(again.unseen) == set(unseen) - {lacking}


def test_the_draw_of_another_seed_is_not_mistaken_for_that_of_the_training():
    seen = read_split("random:2:0", CLASSES).seen
    others = [split_to_score(f"random:2:{seed}", seen, CLASSES).unseen for seed in range(1, 20)]
    assert any(set(unseen) & set(seen) for unseen in others)
    assert len(split_to_score("random:2", CLASSES, CLASSES).unseen) == 2, "a tagger of all labels can be scored too"


def test_labels_to_score_are_the_trained_ones_and_those_of_the_file(tmp_path):
    (tmp_path / "unseen.txt").write_text("yak\nbee\n")
    split = split_to_score(str(tmp_path / "unseen.txt"), ["elk", "ant", "bee"], ["ant", "cat"])
    assert split == (("elk", "ant"), ("yak", "bee"))


@pytest.mark.parametrize(
    ("content", "says"),
    [("dgo\n", "Nearest: 'dog'"), ("\n".join(CLASSES), "leaves 0 seen"), ("", "no class names")],
)
def test_lists_that_split_nothing_are_refused(tmp_path, content, says):
    (tmp_path / "unseen.txt").write_text(content)
    with pytest.raises(DataError, match=says):
        read_split(str(tmp_path / "unseen.txt"), CLASSES)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("random:5", "at least one must remain"),
        ("random:two", "random:COUNT"),
        ("random:2:x", "random:COUNT"),
        ("random:0", "0 unseen"),
        ("nowhere.txt", "no such file"),
    ],
)
def test_an_invalid_split_says_what_a_split_is(given, says):
    with pytest.raises(DataError, match=says):
        read_split(given, CLASSES)


@pytest.mark.parametrize("content", ["[", "[]", '{"test class": "dog"}', '{"test class": [1]}'])
def test_json_that_names_no_classes_is_refused(tmp_path, content):
    (tmp_path / "split.json").write_text(content)
    with pytest.raises(DataError, match=r"split\.json"):
        read_split(str(tmp_path / "split.json"), CLASSES)
