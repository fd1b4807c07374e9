"""Tagloom from Python: train, hold the result, evaluate it, compare it with another."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tagloom
from tagloom.api import TrainedTagger
from tagloom.errors import DataError, RecipeError, TagloomError
from tagloom.evaluation.compare import Change, Comparison, Interval
from tagloom.evaluation.evaluate import Evaluation
from tagloom.recipe import change_settings, load_recipe
from tagloom.tagger.spec import read_spec

pytest.importorskip("torch")

SMALL = {
    "backbone.name": "test_efficientnet",
    "backbone.weights": "none",
    "preprocess.size": 32,
    "head.name": "gap",
    "data.holdout": 0.2,
    "training.batch_size": 16,
}
HOSTILE = "<script>alert('cat')</script>\x1b[31m"


@pytest.fixture(scope="module")
def trained(scenes, tmp_path_factory) -> TrainedTagger:
    """A tagger of two epochs."""
    folder = tmp_path_factory.mktemp("api")
    return tagloom.train(
        scenes / "train.csv",
        val=str(scenes / "val.csv"),
        recipe="quick",
        out=folder / "first",
        epochs=2,
        settings=SMALL,
        cache=folder / "cache",
        show_progress=False,
    )


@pytest.fixture(scope="module")
def longer(scenes, trained) -> TrainedTagger:
    """The same with six epochs, from a recipe as an object."""
    return tagloom.train(
        str(scenes / "train.csv"),
        recipe=change_settings(load_recipe("quick"), SMALL),
        out=str(trained.folder.parent / "second"),
        epochs=6,
        cache=trained.folder.parent / "cache",
        show_progress=False,
    )


def test_a_training_gives_its_folder_classes_metrics_and_tagger(trained, scenes):
    assert (trained.folder / "tagger.json").is_file()
    written = json.loads((trained.folder / "tagger.json").read_text())
    assert trained.metrics == written["metrics"]
    assert set(trained.metrics) == {"validation", "held_aside"}
    assert list(trained.classes) == written["classes"]
    assert written["recipe"]["training"]["epochs"] == 2
    assert written["recipe"]["training"]["batch_size"] == 16
    (tags,) = trained.tagger.predict(scenes / "images" / "val_000000.jpg", top_k=3)
    assert len(tags) == 3
    assert trained.tagger is trained.tagger, "it is loaded once"


def test_without_a_validation_table_the_images_held_out_speak(longer):
    assert set(longer.metrics) == {"held_aside"}
    assert longer.headline_metrics is longer.metrics["held_aside"]
    assert "held out" in repr(longer)


def test_evaluate_takes_whatever_names_a_tagger_and_a_table(trained, scenes):
    table = tagloom.load_table(scenes / "val.csv")
    loaded = tagloom.load(trained.folder)
    expected = trained.metrics["validation"]["mAP"]
    for tagger, data in [
        (trained, scenes / "val.csv"),
        (loaded, str(scenes / "val.csv")),
        (trained.folder, table),
        (str(trained.folder), table),
    ]:
        result = tagloom.evaluate(tagger, data, show_progress=False)
        assert result.metrics["mAP"] == pytest.approx(expected, abs=0.5)
        assert result.classes == trained.classes
        assert result.scores.shape == (16, 24)


def test_evaluate_scores_seen_and_unseen_labels_with_a_split(trained, word_run, scenes):
    with pytest.warns(UserWarning, match="2 of the unseen labels were trained"):
        result = tagloom.evaluate(trained, scenes / "val.csv", split="random:2:0", show_progress=False)
    assert len(result.classes) == 24
    assert set(result.metrics) == {"ZSL", "GZSL", "seen"}
    assert "ZSL mAP" in repr(result)
    assert "<td>GZSL</td>" in result._repr_html_()
    with pytest.raises(TagloomError, match="leave out threshold"):
        tagloom.evaluate(trained, scenes / "val.csv", split="random:2:0", threshold=0.5)


def test_two_trainings_are_compared(trained, longer, scenes):
    result = tagloom.compare(trained, longer.folder, scenes / "train.csv", resamples=20, show_progress=False)
    assert result.images == 60
    first = tagloom.evaluate(trained, scenes / "train.csv", show_progress=False)
    assert result.total.first == pytest.approx(first.metrics["mAP"])
    assert f"{result.total.second:.2f}" in repr(result)
    assert "<table>" in result._repr_html_()


def test_one_tagger_is_not_compared_with_itself(trained, scenes):
    for same in (trained.folder, str(trained.folder), trained):
        with pytest.raises(TagloomError, match="same tagger"):
            tagloom.compare(trained, same, scenes / "val.csv")


def test_a_distillation_gives_the_student_and_what_its_teachers_were_worth(trained, scenes, tmp_path):
    result = tagloom.distill(
        scenes / "train.csv",
        out=tmp_path / "student",
        kinds="dis",
        k=2,
        weights=0.5,
        teacher_epochs=1,
        epochs=4,
        baseline=True,
        settings=SMALL,
        cache=trained.folder.parent / "cache",
        show_progress=False,
    )
    assert result.tagger.classes == trained.classes
    plan = json.loads((tmp_path / "student" / "run.json").read_text())
    assert plan["distill"]["weights"] == {"dis": 0.5}
    assert (plan["distill"]["teacher_epochs"], plan["distill"]["student_epochs"]) == (1, 4)
    assert read_spec(tmp_path / "student").data["epochs"] == 4
    assert set(result.metrics["teachers"]) == {"dis"}
    alone = read_spec(tmp_path / "student" / "baseline").metrics["held_aside"]
    assert result.comparison.images == alone["images"], "without a validation table, the images held out"
    assert result.comparison.total.first == pytest.approx(alone["mAP"], abs=0.05)
    assert result.comparison.total.second == pytest.approx(result.metrics["held_aside"]["mAP"], abs=0.05)
    assert result.scored_on == "images held out from training"
    assert sorted(path.name for path in (tmp_path / "student" / "teachers").iterdir()) == ["dis-1", "dis-2"]


def test_labels_can_be_left_out_of_training(scenes, trained, tmp_path):
    settings = {"out": tmp_path / "run", "cache": trained.folder.parent / "cache", "show_progress": False}
    result = tagloom.train(scenes / "train.csv", split="random:4:0", epochs=1, settings=SMALL, **settings)
    assert len(result.classes) == 20
    assert set(result.classes) < set(trained.classes)


def test_the_command_and_the_function_give_the_same_tagger(trained, scenes):
    out = trained.folder.parent / "by-command"
    changes = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    subprocess.run(
        [sys.executable, "-m", "tagloom", "train", scenes / "train.csv", "--val", scenes / "val.csv", "--epochs", "2",
         "--recipe", "quick", "--out", out, "--cache", trained.folder.parent / "cache", *changes],
        check=True,
        capture_output=True,
    )  # fmt: skip
    ours, theirs = (json.loads((folder / "tagger.json").read_text()) for folder in (trained.folder, out))
    assert ours["metrics"] == theirs["metrics"]
    assert ours["recipe"] == theirs["recipe"]
    assert ours["thresholds"] == theirs["thresholds"]


def test_a_training_can_be_silent_or_tell(trained, scenes, tmp_path, capsys):
    where = {"cache": trained.folder.parent / "cache", "settings": SMALL, "epochs": 1}
    tagloom.train(scenes / "train.csv", out=tmp_path / "silent", show_progress=False, **where)
    assert capsys.readouterr() == ("", "")
    tagloom.train(scenes / "train.csv", out=tmp_path / "loud", **where)
    out, err = capsys.readouterr()
    assert out.startswith(
        f"Training {tmp_path / 'loud'}: {scenes / 'train.csv'}, recipe quick (test_efficientnet + gap"
    )
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, TagloomError, r'tagloom.train\("photos/train.csv"\)'),
        ({"data": 3}, TagloomError, "data is 3; give the path"),
        ({"data": "a.csv", "recipe": "quik"}, RecipeError, "did you mean 'quick'"),
        ({"data": "a.csv", "recipe": 3}, RecipeError, "recipe is 3; give the name of a recipe"),
        ({"data": "a.csv", "settings": ["training.epochs=3"]}, RecipeError, "give a dict"),
        ({"data": "a.csv", "settings": {"epochs": 3}}, RecipeError, "did you mean training.epochs=3"),
        ({"data": "a.csv", "epochs": 0}, RecipeError, "epochs"),
        ({"data": "a.csv", "resume": True}, TagloomError, "no run"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_any_work(tmp_path, arguments, error, message):
    with pytest.raises(error, match=message):
        tagloom.train(**arguments, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_table_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        tagloom.train("nowhere.csv", out=tmp_path / "run", show_progress=False)


def test_what_is_no_tagger_or_no_table_is_refused(trained, scenes, tmp_path):
    with pytest.raises(TagloomError, match="found 3, but need a Tagger"):
        tagloom.evaluate(3, scenes / "val.csv")  # type: ignore[arg-type]
    with pytest.raises(TagloomError, match="found 3, but need a LabelTable"):
        tagloom.evaluate(trained, 3)  # type: ignore[arg-type]
    with pytest.raises(TagloomError, match="no such folder"):
        tagloom.compare(trained, tmp_path / "nowhere", scenes / "val.csv")


def test_a_resumed_run_refuses_other_choices(trained, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_bytes((trained.folder / "run.json").read_bytes())
    with pytest.raises(TagloomError, match=r"training\.epochs"):
        tagloom.train(out=tmp_path / "run", resume=True, epochs=7)


def test_results_show_themselves_and_escape_the_names_of_classes():
    metrics = {"mAP": 50.0, "CF1": 40.0, "OF1": 45.0, "AP": [50.0, None], "classes_without_positive": [1], "images": 9}
    classes = (HOSTILE, f"{HOSTILE}2")
    result = TrainedTagger(Path("runs/<first>"), classes, {"validation": metrics})
    evaluation = Evaluation(metrics, np.arange(9), np.zeros((9, 2), np.float32), [], classes=classes)
    change = Change(HOSTILE, 20, 50.0, 52.0, Interval(1.0, 3.0))
    comparison = Comparison(9, Change("mAP", 20, 50.0, 52.0), (change,))
    assert repr(result) == (
        "TrainedTagger('runs/<first>', 2 classes: mAP 50.00, CF1 40.00, OF1 45.00 on validation data)"
    )
    assert repr(evaluation) == "Evaluation(2 classes, 9 images: mAP 50.00, CF1 40.00, OF1 45.00)"
    assert repr(comparison) == "Comparison(9 images: mAP 50.00 → 52.00 (+2.00); of 1 labels 1 gained, 0 lost)"
    for shown in (result, evaluation, comparison):
        html = shown._repr_html_()
        assert "<script" not in html
        assert "\x1b" not in html
        assert "&lt;script&gt;" in html
        assert html.count("<table>") == html.count("</table>") > 0


def test_a_result_without_metrics_shows_itself_too():
    result = TrainedTagger(Path("runs/first"), ("cat", "dog"), {})
    assert repr(result) == "TrainedTagger('runs/first', 2 classes)"
    assert "runs/first" in result._repr_html_()


def test_a_long_ranking_is_cut_in_the_middle():
    classes = tuple(f"class{number}" for number in range(500))
    metrics = {"mAP": 50.0, "AP": [float(n) / 5 for n in range(500)], "classes_without_positive": [], "images": 9}
    html = Evaluation(metrics, np.arange(9), np.zeros((9, 500), np.float32), [], classes=classes)._repr_html_()
    assert html.count("<tr>") == 2 + 1 + 21
    assert "480 more" in html
    assert "class499" in html
    assert "class0<" in html


def test_importing_tagloom_is_light():
    script = "import sys, tagloom; assert not {'torch', 'numpy', 'rich', 'scipy'} & set(sys.modules), sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
    script = "import sys, tagloom; tagloom.train, tagloom.compare; assert not {'torch', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_public_name_is_there_and_documented():
    for name in tagloom.__all__:
        assert getattr(tagloom, name).__doc__
        assert name in dir(tagloom)
