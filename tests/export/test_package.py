"""An exported folder holds what predicting needs, scores as the run does, and is not written otherwise."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from tagloom.data.scenes import draw_scene
from tagloom.errors import TaggerError, TagloomError
from tagloom.export import package
from tagloom.export.package import write_package
from tagloom.predict.tagger import load
from tagloom.tagger.spec import read_spec, write_spec

FILES = {"tagger.json", "model.onnx", "README.md"}


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("float16", [False, True])
def test_a_folder_of_three_files_scores_as_the_run(untrained_run, tmp_path, float16):
    measured = write_package(untrained_run, tmp_path / "out", stored="float16" if float16 else "float32")
    assert names(tmp_path / "out") == FILES
    pictures = [np.asarray(draw_scene(seed=1, index=index)[0]) for index in range(5)]
    ours, theirs = load(tmp_path / "out"), load(untrained_run)
    assert ours.engine == "onnx"
    differences = np.abs(ours.scores(pictures) - theirs.scores(pictures))
    assert differences.max() <= (0.01 if float16 else 0)
    assert (measured is not None) == float16, "a copy compared with itself proves nothing"
    sizes = [(folder / "model.onnx").stat().st_size for folder in (tmp_path / "out", untrained_run)]
    assert (sizes[0] < 0.75 * sizes[1]) == float16
    spec = read_spec(tmp_path / "out")
    assert spec.calibration == read_spec(untrained_run).calibration
    assert (spec.data.get("weights_stored_in") == "float16") == float16
    assert ("float16" in (tmp_path / "out" / "README.md").read_text()) == float16


def test_without_a_model_onnx_one_is_made_from_the_weights(untrained_run, tmp_path):
    run = shutil.copytree(untrained_run, tmp_path / "run")
    (run / "model.onnx").unlink()
    write_package(run, tmp_path / "out")
    picture = np.asarray(draw_scene(seed=1, index=0)[0])
    np.testing.assert_allclose(load(tmp_path / "out").scores(picture), load(untrained_run).scores(picture), atol=1e-5)


def test_scores_that_differ_are_refused_and_nothing_is_left(untrained_run, tmp_path, monkeypatch):
    monkeypatch.setattr(package, "MAX_DIFFERENCE", 1e-9)
    with pytest.raises(TaggerError, match=r"scores differ by up to .*without --float16"):
        write_package(untrained_run, tmp_path / "out", stored="float16")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_a_tagger_is_left_alone(untrained_run, tmp_path):
    run = shutil.copytree(untrained_run, tmp_path / "run")
    with pytest.raises(TagloomError, match="holds a tagger"):
        write_package(untrained_run, run)
    assert names(run) == names(untrained_run)


@pytest.mark.parametrize("name", ["README.md", "model.onnx"])
def test_nothing_is_written_over(untrained_run, tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(TagloomError, match=f"holds a {name} that would be overwritten"):
        write_package(untrained_run, tmp_path)
    assert names(tmp_path) == {name}
    assert (tmp_path / name).read_text() == "mine"


def test_other_files_of_the_folder_stay(untrained_run, tmp_path):
    (tmp_path / "__init__.py").write_text("kept")
    write_package(untrained_run, tmp_path)
    assert names(tmp_path) == {*FILES, "__init__.py"}


def test_a_tagger_of_words_takes_its_words_along(word_run, tmp_path):
    write_package(word_run, tmp_path / "out", stored="float16")
    assert names(tmp_path / "out") == {*FILES, "words.safetensors"}
    picture = np.asarray(draw_scene(seed=1, index=0)[0])
    asked = ["anchor", "golden heart"]
    ours, theirs = (load(folder).scores(picture, labels=asked) for folder in (tmp_path / "out", word_run))
    np.testing.assert_allclose(ours, theirs, atol=0.01)


def test_where_tables_lay_on_the_machine_of_training_is_not_handed_on(untrained_run, tmp_path):
    run = shutil.copytree(untrained_run, tmp_path / "run")
    spec = read_spec(run)
    write_spec(replace(spec, data=spec.data | {"training_table": "/home/alice/coco/train.csv"}), run)
    write_package(run, tmp_path / "out")
    assert read_spec(tmp_path / "out").data == spec.data | {"training_table": "coco/train.csv"}
    assert "alice" not in (tmp_path / "out" / "README.md").read_text()
