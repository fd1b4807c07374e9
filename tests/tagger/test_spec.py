"""What tagger.json says is believed only as far as it can be true."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagloom.errors import TaggerError
from tagloom.recipe.pictures import Preprocess
from tagloom.scoring.calibration import Calibration
from tagloom.tagger import spec as folder_module
from tagloom.tagger.spec import SPEC_FILE, TaggerSpec, read_spec, write_spec

SPEC = TaggerSpec(
    classes=("cat", "dog", "Ünïcode | label"),
    preprocess=Preprocess(size=64, fit="crop"),
    backbone="test_efficientnet",
    head="gap",
    head_options={"dropout": 0.1},
    calibration=Calibration(1.5, -2.0, (1.0, 1.5, 2.0), (0.0, -1.0, 0.5)),
    thresholds=(0.25, 0.5, 1.0),
    metrics={"validation": {"mAP": 50.0, "AP": [1.0, None, 2.0]}},
)


@pytest.fixture
def content(tmp_path) -> dict:
    write_spec(SPEC, tmp_path)
    return json.loads((tmp_path / SPEC_FILE).read_text(encoding="utf-8"))


def test_what_was_written_comes_back(tmp_path):
    write_spec(SPEC, tmp_path)
    assert read_spec(tmp_path) == SPEC
    assert [path.name for path in tmp_path.iterdir()] == [SPEC_FILE]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=5, unique=True),
    st.lists(st.floats(0, 1, width=32), min_size=5, max_size=5),
)
def test_any_names_and_thresholds_come_back(tmp_path_factory, names, thresholds):
    folder = tmp_path_factory.mktemp("spec")
    values = tuple(thresholds[: len(names)])
    calibration = Calibration(scales=tuple(value + 0.5 for value in values), offsets=values)
    spec = dataclasses.replace(SPEC, classes=tuple(names), thresholds=values, calibration=calibration)
    write_spec(spec, folder)
    assert read_spec(folder) == spec


def test_figures_that_are_not_numbers_are_not_written(tmp_path):
    write_spec(SPEC, tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        write_spec(dataclasses.replace(SPEC, metrics={"mAP": float("nan")}), tmp_path)
    assert read_spec(tmp_path) == SPEC


def test_thresholds_are_one_per_class_and_a_half_where_none_were_chosen():
    np.testing.assert_array_equal(SPEC.threshold_row(), np.float32([0.25, 0.5, 1.0]))
    np.testing.assert_array_equal(dataclasses.replace(SPEC, thresholds=()).threshold_row(), np.float32([0.5] * 3))


def test_a_folder_that_is_not_there_says_what_to_give(tmp_path):
    with pytest.raises(TaggerError, match=r"no such folder.*tagloom train"):
        read_spec(tmp_path / "nowhere")


def test_a_training_that_was_not_finished_says_how_to_go_on(tmp_path):
    with pytest.raises(TaggerError, match=r"not a finished tagger.*--resume"):
        read_spec(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 3}, "has format 3, but this Tagloom reads formats up to 2"),
        ({"format": None}, "has format None"),
        ({"format": True}, "expected a whole number"),
        ({"backbone_depths": [3, 10**9]}, "backbone_depths is 1000000000"),
        ({"backbone_depths": [1] * 99}, "number of backbone_depths is 99"),
        ({"classes": []}, "at least one class"),
        ({"classes": ["a", "a", "b"]}, "class names must differ"),
        ({"classes": "abc"}, "expected a list"),
        ({"classes": ["a", 1, "b"]}, "expected text, found 1"),
        ({"classes": {"a": 1}}, "expected a list"),
        ({"thresholds": [0.5]}, "1 thresholds do not fit 3 classes"),
        ({"thresholds": [0.5, 0.5, 1.5]}, "between 0 and 1"),
        ({"thresholds": [0.5, 0.5, -0.1]}, "between 0 and 1"),
        ({"thresholds": [0.5, 0.5, float("nan")]}, "is nan; it must be a finite number"),
        ({"thresholds": [0.5, 0.5, "0.5"]}, "expected a number"),
        ({"calibration": {"scales": [1.0], "offsets": [0.0]}}, "1 scales do not fit 3 classes"),
        ({"calibration": {"scale": -1.0}}, "scales and bends must lie between"),
        ({"calibration": {"offset": float("nan")}}, "is nan; it must be a finite number"),
        ({"calibration": {"offset": 1e5}}, "offsets must lie between"),
        ({"calibration": {"scale": "1"}}, "expected a number"),
        ({"calibration": {"slope": 1.0}}, "unknown setting 'slope'"),
        ({"activation": "softmax"}, "with a softmax all classes must share one scale"),
        ({"preprocess": {"size": 10**6}}, "it must be a whole number"),
        ({"preprocess": {"size": 64, "fitt": "crop"}}, "did you mean 'fit'"),
        ({"preprocess": 3}, "found int"),
        ({"task": "both"}, "unknown value 'both'"),
        ({"backbone": 5}, "expected text"),
        ({"head_options": [1]}, "expected 'name: value' lines"),
        ({"code": "import os"}, "unknown setting 'code'"),
    ],
)
def test_a_description_that_was_tampered_with_is_refused(tmp_path, content, change, message):
    (tmp_path / SPEC_FILE).write_text(json.dumps(content | change))
    with pytest.raises(TaggerError) as caught:
        read_spec(tmp_path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / SPEC_FILE))
    assert str(caught.value).count(str(tmp_path)) == 1


@pytest.mark.parametrize(
    ("places", "group_size", "fits"),
    [([0, 1, 3 * 2**20 - 1], 2**20, False), ([0, 1, 2**20], 2**20, False), ([0, 1, 2], 2**20, True)],
)
def test_words_that_no_memory_would_hold_are_refused(tmp_path, content, places, group_size, fits):
    content["words"] = {"source": "wordllama", "places": places, "group_size": group_size}
    (tmp_path / SPEC_FILE).write_text(json.dumps(content))
    if fits:
        assert read_spec(tmp_path).words.group_size == group_size
    else:
        with pytest.raises(TaggerError, match="the most is 1048576"):
            read_spec(tmp_path)


@pytest.mark.parametrize("name", ["classes", "preprocess", "backbone", "head"])
def test_a_description_that_lacks_something_is_refused(tmp_path, content, name):
    del content[name]
    (tmp_path / SPEC_FILE).write_text(json.dumps(content))
    with pytest.raises(TaggerError, match=f"tagger.json: '{name}' is missing"):
        read_spec(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "3", '"x"', "[" * 100_000, '{"format": ' + "9" * 5000 + "}", "\ufeff{}"]
)
def test_what_is_no_description_at_all_is_refused(tmp_path, text):
    (tmp_path / SPEC_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(TaggerError, match=SPEC_FILE):
        read_spec(tmp_path)


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / SPEC_FILE).write_bytes(b"\xff\xfe\x00" * 100)
    with pytest.raises(TaggerError, match="not valid JSON"):
        read_spec(tmp_path)


def test_a_huge_description_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_module, "MAX_SPEC_BYTES", 100)
    write_spec(SPEC, tmp_path)
    with pytest.raises(TaggerError, match="larger than 100 bytes"):
        read_spec(tmp_path)


@pytest.mark.parametrize("depth", [40, 900])
def test_a_description_that_is_nested_deeply_is_refused(tmp_path, content, depth):
    nested: object = 1
    for _ in range(depth):
        nested = {"a": nested}
    (tmp_path / SPEC_FILE).write_text(json.dumps(content | {"metrics": {"validation": nested}}))
    with pytest.raises(TaggerError, match="nested too deeply; 32 levels are the most"):
        read_spec(tmp_path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_metrics_that_are_no_numbers_are_refused_where_they_are(tmp_path, content, number):
    text = json.dumps(content).replace('"mAP": 50.0', f'"mAP": {number}')
    (tmp_path / SPEC_FILE).write_text(text)
    with pytest.raises(TaggerError, match=r"metrics\.validation\.mAP is (nan|inf|-inf); it must be a finite number"):
        read_spec(tmp_path)


@pytest.mark.parametrize("unlearnt", ["dog", 3, [1], {"dog": 1}])
def test_classes_without_positive_are_a_list_of_names(tmp_path, content, unlearnt):
    (tmp_path / SPEC_FILE).write_text(json.dumps(content | {"data": {"classes_without_positive": unlearnt}}))
    with pytest.raises(TaggerError, match="it must be a list of names"):
        read_spec(tmp_path)


def test_a_folder_whose_name_is_too_long_is_no_folder(tmp_path):
    with pytest.raises(TaggerError, match="no such folder"):
        read_spec(tmp_path / ("x" * 300))
