"""Seen and unseen labels, from a file or drawn."""

import json

import pytest

from tagloom.data.label_split import read_split
from tagloom.errors import DataError

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


@pytest.mark.parametrize(
    ("content", "says"),
    [("dgo\n", "Nearest: 'dog'"), ("\n".join(CLASSES), "leaves 0 seen"), ("", "no class names")],
)
def test_lists_that_part_nothing_are_refused(tmp_path, content, says):
    (tmp_path / "unseen.txt").write_text(content)
    with pytest.raises(DataError, match=says):
        read_split(str(tmp_path / "unseen.txt"), CLASSES)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("random:5", "one at least must be left"),
        ("random:two", "random:COUNT"),
        ("random:2:x", "random:COUNT"),
        ("random:0", "0 unseen"),
        ("nowhere.txt", "no such file"),
    ],
)
def test_splits_that_are_none_say_what_one_is(given, says):
    with pytest.raises(DataError, match=says):
        read_split(given, CLASSES)


@pytest.mark.parametrize("content", ["[", "[]", '{"test class": "dog"}', '{"test class": [1]}'])
def test_json_that_names_no_classes_is_refused(tmp_path, content):
    (tmp_path / "split.json").write_text(content)
    with pytest.raises(DataError, match=r"split\.json"):
        read_split(str(tmp_path / "split.json"), CLASSES)
