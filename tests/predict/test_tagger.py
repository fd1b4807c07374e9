"""A loaded tagger puts labels on whatever picture it is given, the same in both engines."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tagloom
from tagloom.errors import ImageError, MissingExtraError, TaggerError
from tagloom.predict import engine as engines
from tagloom.predict.insides import Insides
from tagloom.predict.tagger import Tag, Tagger, load
from tagloom.recipe.pictures import Preprocess
from tagloom.scoring.calibration import Calibration
from tagloom.tagger.spec import TaggerSpec


@pytest.fixture(scope="module")
def tagger(finished_run) -> Tagger:
    return load(finished_run)


@pytest.fixture(scope="module")
def paths(scenes) -> list[Path]:
    return sorted((scenes / "images").glob("test_0*.jpg"))


@pytest.fixture
def folder(finished_run, tmp_path) -> Path:
    """A copy of the tagger that a test may spoil."""
    return Path(shutil.copytree(finished_run, tmp_path / "tagger"))


def fixed(logits: list[list[float]], **changes: object) -> Tagger:
    """A tagger whose network always gives these logits."""
    names = tuple("abcdefgh"[: len(logits[0])])
    spec = TaggerSpec(classes=names, preprocess=Preprocess(size=32), backbone="x", head="gap", **changes)
    return Tagger(spec, lambda pictures: np.float32(logits)[: len(pictures)], "onnx")


def picture() -> Image.Image:
    return Image.new("RGB", (20, 10), "red")


def labels(tags: list[Tag]) -> list[str]:
    return [tag.label for tag in tags]


def test_a_finished_run_loads_in_onnx_and_by_the_public_name(tagger, finished_run):
    assert tagger.engine == "onnx"
    assert tagloom.load(str(finished_run)).classes == tagger.classes
    assert len(tagger.classes) == 24


def test_torch_and_onnx_give_the_same_scores(tagger, folder, paths):
    (folder / "model.onnx").unlink()
    other = load(folder)
    assert other.engine == "torch"
    np.testing.assert_allclose(other.scores(paths), tagger.scores(paths), atol=1e-4)


def test_scores_are_probabilities_one_row_per_picture(tagger, paths):
    scores = tagger.scores(paths)
    assert scores.shape == (12, 24)
    assert scores.dtype == np.float32
    assert ((scores >= 0) & (scores <= 1)).all()


def test_every_kind_of_source_gives_the_same_scores(tagger, paths):
    wanted = tagger.scores(paths[:3])
    path = paths[0]
    for single in (path, str(path), path.read_bytes(), Image.open(path)):
        np.testing.assert_array_equal(tagger.scores(single), wanted[:1])
    for many in (tuple(paths[:3]), iter(paths[:3]), (path for path in paths[:3]), [p.read_bytes() for p in paths[:3]]):
        np.testing.assert_array_equal(tagger.scores(many), wanted)


def test_no_pictures_give_no_rows(tagger):
    assert tagger.scores([]).shape == (0, 24)
    assert tagger.predict([]) == []


def test_one_picture_gives_a_list_of_one(tagger, paths):
    assert tagger.predict(paths[0]) == tagger.predict([paths[0]])
    assert len(tagger.predict(paths[0])) == 1


@pytest.mark.parametrize("cores", ["1", "2", "8"])
def test_company_and_cores_do_not_matter_to_the_last_bit(tagger, paths, monkeypatch, cores):
    alone = np.concatenate([tagger.scores(path) for path in paths])
    monkeypatch.setenv("OMP_NUM_THREADS", cores)
    np.testing.assert_array_equal(tagger.scores(paths), alone)


def test_tags_are_the_labels_over_their_own_thresholds_best_first(tagger, paths):
    thresholds = tagger.spec.threshold_row()
    for row, tags in zip(tagger.scores(paths), tagger.predict(paths), strict=True):
        assert set(labels(tags)) == {
            name for name, score, limit in zip(tagger.classes, row, thresholds, strict=True) if score > limit
        }
        assert [tag.score for tag in tags] == sorted((tag.score for tag in tags), reverse=True)
        for tag in tags:
            assert tag.score == pytest.approx(float(row[tagger.classes.index(tag.label)]))


def test_a_score_must_be_over_its_threshold_and_not_at_it():
    row = fixed([[0.0, 1.0, -1.0]]).scores(picture())[0]
    assert row[0] == 0.5
    assert labels(fixed([[0.0, 1.0, -1.0]]).predict(picture(), threshold=0.5)[0]) == ["b"]
    assert labels(fixed([[0.0, 1.0, -1.0]]).predict(picture(), threshold=0.4999)[0]) == ["b", "a"]


def test_a_score_that_went_through_a_file_is_not_over_itself():
    tagger = fixed([[-0.847298, 1.0]])
    row = tagger.scores(picture())[0]
    written = float(str(row[0]))  # shortest text that gives the same float32
    assert labels(tagger.tags(row, written)) == ["b"]


def test_one_threshold_per_class_may_be_given():
    tagger = fixed([[0.0, 1.0, -1.0]])
    assert labels(tagger.predict(picture(), threshold=[0.1, 0.9, 0.1])[0]) == ["a", "c"]
    assert labels(tagger.predict(picture(), threshold=np.array([0.9, 0.1, 0.9]))[0]) == ["b"]
    for wrong in ([0.5], [0.5] * 4, [[0.5, 0.5, 0.5]]):
        with pytest.raises(TaggerError, match="give one, or one for each"):
            tagger.predict(picture(), threshold=wrong)


def test_top_k_alone_gives_exactly_so_many_and_with_a_threshold_at_most():
    tagger = fixed([[-3.0, 2.0, -4.0, 1.0]])
    assert labels(tagger.predict(picture(), top_k=3)[0]) == ["b", "d", "a"]
    assert labels(tagger.predict(picture(), top_k=9)[0]) == ["b", "d", "a", "c"]
    assert labels(tagger.predict(picture(), threshold=0.5, top_k=3)[0]) == ["b", "d"]
    assert labels(tagger.predict(picture(), threshold=0.5, top_k=1)[0]) == ["b"]
    for wrong in (0, -1):
        with pytest.raises(TaggerError, match="at least one label"):
            tagger.predict(picture(), top_k=wrong)


def test_equal_scores_keep_the_order_of_the_classes():
    assert labels(fixed([[1.0, 1.0, 1.0]]).predict(picture(), top_k=2)[0]) == ["a", "b"]


def test_a_single_label_tagger_gives_a_distribution_and_its_best_class():
    tagger = fixed([[1.0, 3.0, 2.0]], task="single", activation="softmax", thresholds=(0.9, 0.9, 0.9))
    row = tagger.scores(picture())[0]
    wanted = np.exp([1.0, 3.0, 2.0]) / np.exp([1.0, 3.0, 2.0]).sum()
    np.testing.assert_allclose(row, wanted, rtol=1e-5)
    assert labels(tagger.predict(picture())[0]) == ["b"], "even below its threshold"
    assert labels(tagger.predict(picture(), top_k=2)[0]) == ["b", "c"]


@pytest.mark.parametrize("activation", ["sigmoid", "softmax"])
def test_extreme_logits_stay_probabilities(activation):
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        row = fixed([[1e4, -1e4, 0.0]], activation=activation).scores(picture())[0]
    np.testing.assert_allclose(row, [1, 0, 0 if activation == "softmax" else 0.5])


def test_small_scores_are_exact_too_so_that_they_keep_their_order():
    logits = [-80.0, -30.0, -20.0, -17.0, -5.0, 0.5, 5.0, 30.0]
    row = fixed([logits]).scores(picture())[0]
    np.testing.assert_allclose(row, 1 / (1 + np.exp(-np.array(logits))), rtol=1e-6)
    assert (np.diff(row) > 0).all()


def test_an_unreadable_picture_raises_its_own_error_and_streams_as_one(tagger, paths, tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(paths[0].read_bytes()[:200])
    with pytest.raises(ImageError, match="broken"):
        tagger.predict([paths[0], broken])
    results = list(tagger.stream([paths[0], broken, paths[1]]))
    assert [place for place, _ in results] == [0, 1, 2]
    assert isinstance(results[1][1], ImageError)
    np.testing.assert_array_equal(results[2][1], tagger.scores(paths[1])[0])


def test_a_network_that_does_not_fit_its_description_is_refused(folder, paths):
    content = json.loads((folder / "tagger.json").read_text())
    content["classes"] = content["classes"][:-1]
    content["thresholds"] = content["thresholds"][:-1]
    content.pop("held_out", None)
    content.pop("training_positives", None)
    (folder / "tagger.json").write_text(json.dumps(content))
    with pytest.raises(TaggerError, match="names 23 classes"):
        load(folder).predict(paths[0])
    (folder / "model.onnx").unlink()
    with pytest.raises(TaggerError, match="does not fit the tagger"):
        load(folder)


def test_a_folder_without_weights_is_refused(folder):
    (folder / "model.onnx").unlink()
    (folder / "model.safetensors").unlink()
    with pytest.raises(TaggerError, match=r"has no model\.safetensors"):
        load(folder)


def test_without_torch_an_unexported_tagger_names_the_install(folder, monkeypatch):
    (folder / "model.onnx").unlink()
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"no model\.onnx.*tagloom\[train\]"):
        load(folder)


def test_predicting_with_an_exported_tagger_imports_no_torch(finished_run, paths):
    script = (
        "import sys, tagloom\n"
        f"tags = tagloom.load({str(finished_run)!r}).predict({str(paths[0])!r}, top_k=3)\n"
        "assert len(tags[0]) == 3\n"
        "assert not {'torch', 'timm', 'sklearn', 'pyarrow'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_tagger_on_the_hub_that_cannot_be_fetched_is_one_clear_error(monkeypatch):
    import huggingface_hub

    def offline(*arguments, **options):
        raise OSError("no network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(TaggerError, match=r"hf-hub:owner/name: could not be fetched from the hub.*no network"):
        load("hf-hub:owner/name")


def test_a_tagger_from_the_hub_is_fetched_without_anything_that_runs(monkeypatch, finished_run):
    import huggingface_hub

    asked = {}

    def fetched(name, revision, allow_patterns):
        asked.update(name=name, revision=revision, patterns=allow_patterns)
        return str(finished_run)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetched)
    assert len(load("hf-hub:owner/name").classes) == 24
    assert (asked["name"], asked["revision"]) == ("owner/name", None)
    load("hf-hub:owner/name@0a1b2c3")
    assert (asked["name"], asked["revision"]) == ("owner/name", "0a1b2c3")
    assert set(asked["patterns"]) == {"*.json", "*.safetensors", "*.onnx"}


def test_pixels_are_tagged_like_the_picture_they_are(finished_run, scenes):
    tagger = load(finished_run)
    picture = sorted((scenes / "images").iterdir())[0]
    pixels = np.asarray(Image.open(picture).convert("RGB"))
    np.testing.assert_allclose(tagger.scores(pixels), tagger.scores(picture), atol=1e-6)
    with pytest.raises(ImageError, match="uint8 of shape"):
        tagger.scores(np.zeros((8, 8, 4), np.float32))


def test_scores_are_calibrated_the_same_in_both_engines(untrained_run, tmp_path):
    exported = load(untrained_run)
    folder = Path(shutil.copytree(untrained_run, tmp_path / "run"))
    (folder / "model.onnx").unlink()
    other = load(folder)
    assert (exported.engine, other.engine) == ("onnx", "torch")
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    np.testing.assert_allclose(exported.scores(pixels), other.scores(pixels), atol=1e-5)
    (_, logits) = next(iter(exported.stream_logits([pixels])))
    calibration = exported.spec.calibration
    wanted = 1 / (1 + np.exp(-(logits * np.array(calibration.scales) + np.array(calibration.offsets))))
    np.testing.assert_allclose(exported.scores(pixels)[0], wanted, rtol=1e-5)


def test_thresholds_are_held_against_calibrated_scores():
    tagger = fixed([[1.0, 1.0]], calibration=Calibration(1.0, 0.0, (1.0, 1.0), (0.0, -2.0)))
    assert labels(tagger.predict(picture())[0]) == ["a"]
    assert labels(fixed([[1.0, 1.0]]).predict(picture())[0]) == ["a", "b"]


def test_a_softmax_is_sharpened_by_its_scale():
    row = fixed([[1.0, 3.0]], activation="softmax", calibration=Calibration(2.0)).scores(picture())[0]
    np.testing.assert_allclose(row, np.exp([2.0, 6.0]) / np.exp([2.0, 6.0]).sum(), rtol=1e-5)


def test_a_folder_without_torch_weights_runs_in_onnx_even_where_there_is_a_gpu(untrained_run, tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "_has_gpu", lambda: True)
    folder = Path(shutil.copytree(untrained_run, tmp_path / "run"))
    (folder / "model.safetensors").unlink()
    assert load(folder).engine == "onnx"
    with pytest.raises(TaggerError, match=r"was exported, without .*--device cpu"):
        engines._torch_network(Insides(folder, load(folder).spec, "cpu"))


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize("odd", [NAN, INFINITE, -INFINITE])
@pytest.mark.parametrize("task", ["single", "multi"])
def test_a_network_that_gives_nan_is_an_error_that_names_the_picture_and_the_tagger(task, odd, tmp_path):
    activation = "softmax" if task == "single" else "sigmoid"
    spec = TaggerSpec(("cat", "dog"), Preprocess(size=32), "x", "gap", task=task, activation=activation)

    def dark_is_odd(pictures):
        return np.float32([[odd, 1.0] if picture.max() == 0 else [2.0, -1.0] for picture in pictures])

    tagger = Tagger(spec, dark_is_odd, "onnx", name="runs/damaged")
    good, dark = tmp_path / "good.png", tmp_path / "dark.png"
    Image.new("RGB", (8, 8), "white").save(good)
    Image.new("RGB", (8, 8)).save(dark)
    assert labels(tagger.predict(good)[0]) == ["cat"]
    said = rf"dark\.png: the tagger runs/damaged gives {odd} for 'cat' \(1 of 2 labels are not finite\)"
    for ask in (tagger.predict, tagger.scores, lambda pictures: list(tagger.stream_logits(pictures))):
        with pytest.raises(TaggerError, match=said):
            ask([good, dark])
    with pytest.raises(TaggerError, match="picture 2: the tagger runs/damaged"):
        tagger.predict([np.full((8, 8, 3), 255, np.uint8), np.zeros((8, 8, 3), np.uint8)])


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
@pytest.mark.parametrize("task", ["single", "multi"])
def test_nan_never_reaches_a_file_and_what_was_done_before_is_kept(task, suffix, tmp_path):
    from tagloom.predict.files import Job
    from tagloom.predict.journal import journal_path

    spec = TaggerSpec(("cat", "dog"), Preprocess(size=32), "x", "gap", task=task)

    def dark_is_nan(pictures):
        return np.float32([[NAN, NAN] if picture.max() == 0 else [2.0, -1.0] for picture in pictures])

    paths = [tmp_path / f"{number:03}.png" for number in range(35)]
    for path in paths:
        Image.new("RGB", (8, 8), "black" if path == paths[-1] else "white").save(path)
    out = tmp_path / f"tags{suffix}"
    tagger = Tagger(spec, dark_is_nan, "onnx", name="runs/damaged")
    with pytest.raises(TaggerError, match=rf"{paths[-1].name}: the tagger runs/damaged gives nan"):
        Job(tagger, paths, out).run()
    assert not out.exists()
    assert "NaN" not in journal_path(out).read_text()
    assert Job(tagger, paths[:-1], out).run(resume=True).tagged == 34
    assert "nan" not in out.read_text().lower()
