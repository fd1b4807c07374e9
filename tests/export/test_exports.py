"""An export measures itself: what it keeps agrees with the run, and what does not is refused with the numbers."""

import json
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from PIL import Image
from typer.testing import CliRunner

from tagloom.cli import app
from tagloom.data.scenes import draw_scene
from tagloom.errors import DataError, TaggerError, TagloomError
from tagloom.export import package
from tagloom.export.measure import times_as_fast
from tagloom.export.package import Extras, write_package
from tagloom.export.standalone import write_standalone
from tagloom.predict.tagger import load
from tagloom.recipe.pictures import Preprocess
from tagloom.scoring.calibration import Calibration, to_scores
from tagloom.tagger.spec import read_spec, write_spec


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for index in range(24):
        draw_scene(seed=2, index=index)[0].save(folder / f"{index}.png")
    return folder


@pytest.fixture
def any_speed(monkeypatch):
    """A tiny network is not faster in eight bits, and a busy machine must not decide on a test."""
    monkeypatch.setattr(package, "_speed", lambda *given: 1.5)


@pytest.mark.usefixtures("any_speed")
def test_eight_bits_score_like_the_run_and_say_what_was_measured(untrained_run, photos, tmp_path):
    measured = write_package(untrained_run, tmp_path / "out", stored="int8", calibrate=[photos])
    ours, theirs = load(tmp_path / "out"), load(untrained_run)
    assert ours.engine == "onnx"
    pictures = [np.asarray(draw_scene(seed=9, index=index)[0]) for index in range(6)]
    differences = np.abs(ours.scores(pictures) - theirs.scores(pictures))
    assert 0 < differences.mean() < 0.05
    told = read_spec(tmp_path / "out").data
    assert told["weights_stored_in"] == "int8"
    assert told["times_as_fast_as_float32"] == 1.5
    assert told["tags_in_common_with_float32"] == pytest.approx(measured.agreement.tags, abs=1e-4)
    assert measured.agreement.tags >= 0.9
    assert "times as fast as float32: 1.5" in (tmp_path / "out" / "README.md").read_text()
    sizes = [(folder / "model.onnx").stat().st_size for folder in (tmp_path / "out", untrained_run)]
    assert sizes[0] < sizes[1]
    write_package(tmp_path / "out", tmp_path / "again")
    np.testing.assert_array_equal(load(tmp_path / "again").scores(pictures), ours.scores(pictures))
    with pytest.raises(TaggerError, match="is in int8 already"):
        write_package(tmp_path / "out", tmp_path / "more", stored="float16")


@pytest.mark.usefixtures("any_speed")
def test_a_tagger_of_words_in_eight_bits_still_takes_any_label(word_run, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(package, "MIN_COMMON_TAGS", 0)  # a search for layers to keep would take long
    write_package(word_run, tmp_path / "out", stored="int8", calibrate=[photos])
    picture = np.asarray(draw_scene(seed=1, index=0)[0])
    asked = ["anchor", "golden heart"]
    ours, theirs = (load(folder).scores(picture, labels=asked) for folder in (tmp_path / "out", word_run))
    np.testing.assert_allclose(ours, theirs, atol=0.15)


def test_one_that_is_slower_is_refused_with_both_numbers(untrained_run, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(package, "_speed", lambda *given: 0.8)
    with pytest.raises(TaggerError, match=r"% of tags in common.*0\.80 times as fast.*--keep-anyway"):
        write_package(untrained_run, tmp_path / "out", stored="int8", calibrate=[photos])
    assert not (tmp_path / "out").exists()
    write_package(untrained_run, tmp_path / "out", stored="int8", calibrate=[photos], keep_anyway=True)
    assert read_spec(tmp_path / "out").data["times_as_fast_as_float32"] == 0.8


@pytest.mark.usefixtures("any_speed")
def test_one_that_disagrees_tries_floats_and_is_then_refused(untrained_run, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(package, "MIN_COMMON_TAGS", 1.1)
    with pytest.raises(TaggerError, match=r"% of tags in common, at least 110 % are needed.*1\.50 times as fast"):
        write_package(untrained_run, tmp_path / "out", stored="int8", calibrate=[photos])
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("any_speed")
@pytest.mark.parametrize("allowed", [100.0, -100.0])
def test_map_is_compared_where_a_table_is_given(untrained_run, photos, tmp_path, monkeypatch, allowed):
    from tagloom.data import load_table

    rows = [f"{index}.png,{'cat' if index % 2 else 'dog'}" for index in range(24)]
    table = photos / "table.csv"
    table.write_text("\n".join(["image,labels", *rows]))
    monkeypatch.setattr(package, "MAX_MAP_LOST", allowed)
    options = {"stored": "int8", "calibrate": [photos], "check": load_table(str(table))}
    if allowed < 0:
        with pytest.raises(TaggerError, match="mAP are lost"):
            write_package(untrained_run, tmp_path / "out", **options)
        return
    before, after = write_package(untrained_run, tmp_path / "out", **options).precision
    assert read_spec(tmp_path / "out").data["mAP_as_stored"] == pytest.approx(after, abs=0.01)
    assert abs(before - after) < 30


def test_too_few_pictures_are_refused(untrained_run, photos, tmp_path):
    with pytest.raises(DataError, match=r"1 pictures can be read.*at least 16"):
        write_package(untrained_run, tmp_path / "out", stored="int8", calibrate=[photos / "3.png"])


def test_speed_is_the_ratio_of_processor_time():
    def work(steps: int):
        return lambda: sum(range(steps))

    assert 2 < times_as_fast(work(20_000), work(80_000)) < 8


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("fit", ["squeeze", "crop"])
def test_one_file_takes_pictures_of_any_size_and_gives_the_taggers_scores(untrained_run, tmp_path, fit, interpolation):
    spec = replace(read_spec(untrained_run), preprocess=Preprocess(32, fit, 0.875, interpolation))
    path = tmp_path / "standalone.onnx"
    write_standalone(untrained_run / "model.onnx", path, spec, preprocess=True, scores=True)
    session = onnxruntime.InferenceSession(str(path))
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["classes"]) == list(spec.classes)
    assert json.loads(metadata["thresholds"]) == [0.5] * 5
    (tmp_path / "tagger").mkdir()
    (tmp_path / "tagger" / "model.onnx").write_bytes((untrained_run / "model.onnx").read_bytes())
    write_spec(spec, tmp_path / "tagger")
    tagger = load(tmp_path / "tagger")
    scene = draw_scene(seed=4, index=0)[0]
    for size in ((32, 32), (130, 77), (61, 200), (20, 23), (64, 64)):
        picture = np.asarray(scene.resize(size, Image.Resampling.BICUBIC))
        (scores,) = session.run(None, {"pictures": np.stack([picture, picture])})
        assert scores.shape == (2, 5)
        np.testing.assert_allclose(scores[0], tagger.scores(picture)[0], atol=0.02)
        np.testing.assert_allclose(scores[0], scores[1], atol=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {"activation": "softmax", "task": "single", "calibration": None},
        {"parents": {"cat": "tree", "tree": "car"}},
        {"calibration": Calibration(4.0, -0.5, bend=0.2)},
    ],
)
def test_scores_inside_are_those_of_to_scores(untrained_run, tmp_path, changes):
    spec = replace(read_spec(untrained_run), **changes)
    picture = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    path = tmp_path / "standalone.onnx"
    write_standalone(untrained_run / "model.onnx", path, spec, preprocess=False, scores=True)
    logits, *_ = onnxruntime.InferenceSession(str(untrained_run / "model.onnx")).run(None, {"pictures": picture})
    (scores,) = onnxruntime.InferenceSession(str(path)).run(None, {"pictures": picture})
    np.testing.assert_allclose(scores, to_scores(logits, spec.activation, spec.calibration, spec.tree), atol=1e-5)


def test_a_folder_with_files_for_other_programs_is_still_a_tagger(untrained_run, tmp_path):
    import torch

    out = tmp_path / "out"
    write_package(untrained_run, out, extras=Extras(preprocess_inside=True, torch_program=True))
    assert {path.name for path in out.iterdir()} == {
        "tagger.json",
        "model.onnx",
        "README.md",
        "standalone.onnx",
        "model.pt2",
    }
    picture = np.asarray(draw_scene(seed=1, index=0)[0].resize((32, 32)))
    np.testing.assert_array_equal(load(out).scores(picture), load(untrained_run).scores(picture))
    program = torch.export.load(str(out / "model.pt2")).module()
    logits = program(torch.from_numpy(np.stack([picture] * 3))).detach().numpy()
    tagger = load(out)
    np.testing.assert_allclose(tagger.to_scores(logits)[2], tagger.scores(picture)[0], atol=1e-5)


def test_a_surrounding_that_is_wrong_is_not_kept(untrained_run, tmp_path, monkeypatch):
    monkeypatch.setattr(package, "standalone_difference", lambda *given: float("nan"))
    with pytest.raises(TaggerError, match=r"standalone\.onnx gives scores that differ"):
        write_package(untrained_run, tmp_path / "out", extras=Extras(scores_inside=True))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--int8"], "--int8 and --calibrate PHOTOS go together"),
        (["--calibrate", "x"], "--int8 and --calibrate PHOTOS go together"),
        (["--int8", "--float16", "--calibrate", "x"], "exclude each other"),
        (["--check", "x.csv"], "are for --float16 and --int8"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(untrained_run, tmp_path, options, message):
    result = CliRunner().invoke(app, ["export", str(untrained_run), "--out", str(tmp_path / "out"), *options])
    assert isinstance(result.exception, TagloomError)
    assert message in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_the_command_exports_in_eight_bits(untrained_run, photos, tmp_path):
    out = tmp_path / "out"
    arguments = ["export", str(untrained_run), "--int8", "--calibrate", str(photos), "--keep-anyway", "--scores-inside"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(out)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.exception
    printed = " ".join(result.output.split())
    assert "% of tags are the same" in printed
    assert "times as fast on one core here" in printed
    assert "standalone.onnx has" in printed
    assert read_spec(out).data["times_as_fast_as_float32"] > 0.2, "measured here, whatever came out"
