"""`tagloom doubts`, and --precision and --recall of the verbs that make tags."""

import csv
import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from tagloom.cli import app
from tagloom.data import load_table
from tagloom.data.writing import write_known_pairs
from tagloom.predict.tagger import load
from tagloom.scoring.promise import count_held_out
from tagloom.tagger.spec import read_spec, write_spec

pytest.importorskip("torch")


def tagloom(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def sure_run(tmp_path, finished_run, scenes):
    """A tagger whose counts say that three labels were right in every one of 100 cases, and the others never."""
    from dataclasses import replace

    run = tmp_path / "sure"
    shutil.copytree(finished_run, run)
    spec = read_spec(run)
    generator = np.random.default_rng(0)
    scores = generator.random((400, len(spec.classes))).astype(np.float32)
    targets = (scores > 0.6).astype(np.uint8)
    targets[:, 3:] = generator.random(targets[:, 3:].shape) < 0.05
    write_spec(replace(spec, held_out=count_held_out(scores, targets)), run)
    return run


def test_a_trained_tagger_carries_what_promises_are_made_from(finished_run):
    spec = read_spec(finished_run)
    assert spec.held_out is not None
    assert spec.held_out.images == 12
    assert len(spec.held_out.classes) == len(spec.classes)
    assert all(found.positives <= 12 for found in spec.held_out.classes)


def test_predict_and_tags_and_keywords_give_only_labels_that_are_promised(sure_run, scenes, tmp_path):
    classes = read_spec(sure_run).classes
    out, scores = tmp_path / "tags.jsonl", tmp_path / "scores.parquet"
    images = sorted((scenes / "images").iterdir())[:8]
    said = tagloom("predict", sure_run, *images, "--precision", 0.9, "--out", out, "--scores", scores)
    assert f"precision 0.9 can be promised of 3 of {len(classes)} labels, from 400 held-out images" in said
    assert "the least that proves 0.9 is 29 tags of a label, all right" in said.lower()
    assert f"'{classes[3]}'" in said
    limits = load(sure_run).rule(precision=0.9).limits
    assert (limits[:3] < 1).all()
    again = tmp_path / "again.jsonl"
    tagloom("tags", scores, "--precision", 0.9, "--out", again)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    kept = [json.loads(line) for line in again.read_text().splitlines()]
    assert [[tag["label"] for tag in row["tags"]] for row in kept] == [
        [tag["label"] for tag in row["tags"]] for row in rows
    ]
    labels = {tag["label"] for row in rows for tag in row["tags"]}
    assert labels <= set(classes[:3])
    photo = shutil.copy(images[0], tmp_path / "photo.jpg")
    tagloom("keywords", "write", sure_run, photo, "--recall", 0.5)
    assert {label for label in classes if f">{label}<" in (tmp_path / "photo.jpg.xmp").read_text()} <= set(classes)


def test_evaluate_says_whether_a_promise_holds_here(sure_run, scenes, tmp_path):
    found = tmp_path / "found.json"
    said = tagloom("evaluate", sure_run, scenes / "val.csv", "--precision", 0.9, "--json", found)
    promise = json.loads(found.read_text())["promise"]
    assert promise["promised"] == 3
    assert promise["kept"] <= promise["measured"] <= 3
    assert "is promised of 3 of" in said


def test_a_promise_can_be_based_on_a_table(finished_run, scenes):
    said = tagloom(
        "evaluate", finished_run, scenes / "val.csv", "--recall", 0.5, "--promise-on", scenes / "train.csv"
    ).replace("\n", " ")
    assert "recall 0.5 is promised of" in said
    result = CliRunner().invoke(app, ["evaluate", str(finished_run), str(scenes / "val.csv"), "--promise-on", "x.csv"])
    assert result.exit_code != 0


@pytest.mark.parametrize("wrong", [("--precision", "90"), ("--recall", "0"), ("--precision", "0.9", "--recall", "0.9")])
def test_what_nobody_can_promise_is_refused_before_anything_is_scored(scenes, wrong):
    arguments = ["predict", *map(str, (scenes / "images").iterdir()), *wrong]
    for table in ([], ["--promise-on", "no-such-table.csv"]):
        result = CliRunner().invoke(app, [*arguments, *table])
        assert result.exit_code != 0
        assert "ask for" in str(result.exception)


def test_doubts_find_labels_that_were_made_wrong_and_answers_correct_the_table(scenes, feature_cache, tmp_path):
    truth = load_table(scenes / "train.csv")
    wrong = truth.targets(slice(None)).astype(bool)
    flips = np.random.default_rng(1).choice(wrong.size, 30, replace=False)
    wrong.ravel()[flips] ^= True
    from dataclasses import replace

    from scipy.sparse import csr_array

    images = [str(truth.path(row)) for row in range(len(truth))]
    table = write_known_pairs(replace(truth, images=images, positive=csr_array(wrong)), tmp_path / "wrong.csv")
    out, sheet = tmp_path / "doubts.csv", tmp_path / "doubts.png"
    said = tagloom(
        *("doubts", table, "--out", out, "--sheet", sheet, "--folds", 3, "--count", 5000, "--cache", feature_cache),
        *("--set", "preprocess.size=64", "--set", "training.epochs=6"),
    )
    assert "Labels to look at first" in said
    assert sheet.read_bytes().startswith(b"\x89PNG")
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    flipped = {(images[index // wrong.shape[1]], truth.classes[index % wrong.shape[1]]) for index in flips.tolist()}
    ranks = [rank for rank, row in enumerate(rows) if (row["image"], row["label"]) in flipped]
    assert len(ranks) == len(flipped)
    assert np.mean(ranks) < 0.45 * len(rows), "sooner than by chance, from 60 scenes"
    true = {
        (image, truth.classes[column])
        for image, row in zip(images, truth.targets(slice(None)), strict=True)
        for column in np.flatnonzero(row)
    }
    for row in rows:
        row["answer"] = "yes" if (row["image"], row["label"]) in true else "no"
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    tagloom("doubts", table, "--apply", out, "--out", tmp_path / "right.csv")
    corrected = load_table(tmp_path / "right.csv").with_classes(truth.classes)
    assert (corrected.targets(slice(None)) == truth.targets(slice(None))).all()
