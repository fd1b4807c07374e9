"""What a tagger folder or a name asks for is limited: words, pictures at once, plans of runs, lengths of names."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tagloom import ready
from tagloom.data import reading
from tagloom.data.reading import read_pictures
from tagloom.errors import DataError, RecipeError, TaggerError, TagloomError, WordError
from tagloom.hub import split_hub_name
from tagloom.predict.any_labels import read_label_scorer, trusted_source
from tagloom.predict.engine import open_engine
from tagloom.predict.files import split_arguments
from tagloom.recipe import load_recipe
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.spec import read_spec
from tagloom.words.sources import open_source
from tagloom.words.vector_files import LabelVectors, write_vectors

FIXTURES = Path(__file__).parents[1] / "fixtures" / "format-1"
LONG = "x" * 300


def test_a_layout_of_words_that_asks_for_64_gib_is_refused(tmp_path):
    folder = Path(shutil.copytree(FIXTURES / "words", tmp_path / "tagger"))
    content = json.loads((folder / "tagger.json").read_text(encoding="utf-8"))
    classes = content["classes"]
    content["words"] |= {"places": list(range(len(classes))), "group_size": 2**20, "fixed_queries": None}
    (folder / "tagger.json").write_text(json.dumps(content), encoding="utf-8")
    write_vectors(
        folder / "words.safetensors", LabelVectors(tuple(classes), np.ones((len(classes), 16_384), np.float32))
    )
    scorer = read_label_scorer(folder, read_spec(folder), lambda pictures, words: pytest.fail("it ran"))
    with pytest.raises(
        TaggerError, match="1 queries of 1048576 words of 16384 values each are more than Tagloom keeps"
    ):
        scorer.for_own_classes()


def test_a_network_with_words_must_give_a_logit_for_each(tmp_path):
    folder = Path(shutil.copytree(FIXTURES / "words", tmp_path / "tagger"))
    run = open_engine(folder, read_spec(folder), "cpu").run
    picture = np.zeros((1, 32, 32, 3), np.uint8)
    assert run(picture, np.zeros((4, 3, 6), np.float32)).shape == (1, 12)
    with pytest.raises(TaggerError, match="takes 2 inputs, but 1 were given"):
        run(picture)


def test_large_pictures_come_in_small_batches():
    def sizes(size: int, asked: int) -> list[int]:
        pictures = [np.zeros((4, 4, 3), np.uint8)] * 5
        return [len(batch.indices) for batch in read_pictures(pictures, Preprocess(size=size), batch_size=asked)]

    assert sizes(64, 32) == [5]
    assert sizes(64, 2) == [2, 2, 1]
    assert sizes(2048, 32) == [2, 2, 1]
    assert sizes(4096, 32) == [1] * 5
    assert 32 * 512**2 <= reading.MAX_BATCH_PIXELS < 33 * 512**2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": 3}, "data: expected text"),
        ({"data": None}, "data: expected text"),
        ({"data": "a\0b"}, "is no path"),
        ({"val": "\ud800"}, "is no path"),
        ({"data_options": {"split": 3}}, "data_options: expected text"),
        ({"data_options": []}, "data_options: expected"),
        ({"classes": "cat"}, "classes: expected a list"),
        ({"classes": [1]}, "classes: expected text"),
        ({"images": "some"}, "images: unknown value 'some'"),
        ({"export": "yes"}, "export: expected true or false"),
        ({"distill": {"k": 2}}, "distill: 'teacher_epochs' is missing"),
        ({"recipe": [1]}, "recipe: expected a list of 'name: value' lines"),
        ({"recipe": {"training": {"epochs": float("nan")}}}, "recipe.training.epochs is nan"),
    ],
)
def test_a_plan_that_was_tampered_with_is_refused(tmp_path, change, message):
    pytest.importorskip("torch")
    from tagloom.training.plan import RunPlan

    content = json.loads((FIXTURES / "hsq" / "run.json").read_text(encoding="utf-8"))
    (tmp_path / "run.json").write_text(json.dumps(content))
    assert RunPlan.read(tmp_path) == RunPlan.read(FIXTURES / "hsq")
    (tmp_path / "run.json").write_text(json.dumps(content | change))
    with pytest.raises(TagloomError, match=rf"holds no run that could be resumed \(.*{message}"):
        RunPlan.read(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "3", "[" * 10_000, '{"data": "a"}', "\ufeff{}"])
def test_what_is_no_plan_is_refused(tmp_path, text):
    pytest.importorskip("torch")
    from tagloom.training.plan import RunPlan

    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(TagloomError, match="holds no run that could be resumed"):
        RunPlan.read(tmp_path)


def test_a_name_of_300_characters_is_one_clear_error():
    with pytest.raises(DataError, match="no such image"):
        split_arguments([LONG])
    assert split_arguments([LONG, "a.jpg"]) == (LONG, [Path("a.jpg")]), "to be told that there is no such folder"
    with pytest.raises(RecipeError, match="unknown recipe"):
        load_recipe(LONG)
    with pytest.raises(WordError, match="no such file"):
        trusted_source(f"{LONG}.txt")
    with pytest.raises(WordError):
        open_source(LONG)


def test_a_ready_tagger_that_was_changed_is_not_used(monkeypatch):
    assert ready.ready_folder().name == "ready"
    shipped = ready.SHA256["."]
    monkeypatch.setitem(ready.SHA256, ".", "0" * 64)
    with pytest.raises(
        TaggerError, match=rf"model\.onnx: is not the network that ships with Tagloom: its SHA-256 is {shipped}"
    ):
        ready.ready_folder()


@pytest.mark.parametrize(
    "name", ["owner/name", "hf-hub:", "hf-hub:a/b/c", "hf-hub:a/b@", "hf-hub:a/b@c@d", "hf-hub:../x y"]
)
def test_what_is_no_name_on_the_hub_is_refused(name):
    with pytest.raises(TaggerError, match="write hf-hub:owner/name or hf-hub:owner/name@revision"):
        split_hub_name(name)
