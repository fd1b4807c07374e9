"""`compare` and `hard` with several taggers, `hard --class`, and `study`, as people meet them."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from tagloom.cli import app
from tagloom.data import load_table


@pytest.fixture
def taggers(finished_run: Path, tmp_path: Path) -> list[str]:
    """Three taggers: one that works, and two that answer for the wrong labels."""
    folders = [finished_run]
    for turn in (1, 2):
        copy = shutil.copytree(finished_run, tmp_path / f"turned-{turn}")
        spec = json.loads((copy / "tagger.json").read_text())
        spec["classes"] = spec["classes"][turn:] + spec["classes"][:turn]
        (copy / "tagger.json").write_text(json.dumps(spec))
        folders.append(copy)
    return [str(folder) for folder in folders]


def run(*arguments: object):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    if result.exit_code:
        raise result.exception
    return result.output


def test_three_taggers_are_compared_with_the_first(taggers, scenes, tmp_path):
    pytest.importorskip("matplotlib")
    drawn, written = tmp_path / "c.svg", tmp_path / "c.json"
    out = run(
        "compare", *taggers, scenes / "train.csv", "--gap", "car,boat", "--plot", drawn, "--json", written,
        "--resamples", 20,
    )  # fmt: skip
    content = json.loads(written.read_text())
    assert [entry["second"] for entry in content["comparisons"]] == taggers[1:]
    for letter, entry in zip("BC", content["comparisons"], strict=True):
        assert entry["mAP"]["difference"] < 0
        assert any(line.startswith(letter) and f"{entry['mAP']['second']:.2f}" in line for line in out.splitlines())
        assert str(entry["pairs"]["worsened"]) in out
    alone = tmp_path / "two.json"
    run("compare", taggers[0], taggers[2], scenes / "train.csv", "--json", alone, "--resamples", 20)
    assert json.loads(alone.read_text())["mAP"] == content["comparisons"][1]["mAP"]
    assert "turned-2" in drawn.read_text()


def test_one_tagger_alone_or_twice_cannot_be_compared(taggers, scenes):
    with pytest.raises(Exception, match="at least two taggers"):
        run("compare", taggers[0], scenes / "val.csv")
    with pytest.raises(Exception, match="taggers 1 and 3 are the same"):
        run("compare", taggers[0], taggers[1], taggers[0], scenes / "val.csv")


def test_the_tenths_of_several_taggers_are_printed_written_and_drawn(taggers, scenes, tmp_path):
    pytest.importorskip("matplotlib")
    drawn, written = tmp_path / "t.png", tmp_path / "t.json"
    out = run("hard", *taggers, scenes / "train.csv", "--plot", drawn, "--json", written)
    content = json.loads(written.read_text())
    assert content["size"] == 2
    for entry in (*content["best"], *content["worst"]):
        assert entry["class"] in out
        assert len(entry["AP"]) == 3
    assert drawn.read_bytes().startswith(b"\x89PNG")


def test_a_class_is_shown_from_both_ends(finished_run, scenes, tmp_path):
    drawn, written = tmp_path / "class.png", tmp_path / "class.json"
    out = run(
        "hard", finished_run, scenes / "train.csv", "--class", "boat", "--count", 6, "--plot", drawn, "--json", written
    )
    content = json.loads(written.read_text())
    scores = [entry["score"] for entry in content["highest"] + content["lowest"][::-1]]
    assert scores == sorted(scores, reverse=True)
    assert len(content["highest"]) == len(content["lowest"]) == 3
    table = load_table(scenes / "train.csv")
    true = {str(table.path(row)) for row in table.positive[:, table.classes.index("boat")].nonzero()[0]}
    assert {entry["image"] for entry in content["highest"] + content["lowest"]} <= true
    assert content["positives"] == len(true)
    assert f"{scores[0]:.4f}" in out
    with Image.open(drawn) as image:
        assert image.width > 2 * 3 * 224


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--class", "boaat"], "did you mean 'boat'"),
        (["--by", "alpha"], "only a layover tagger has α"),
        (["--class", "boat", "--by", "alpha"], "leave one of them out"),
    ],
)
def test_what_hard_cannot_show_is_said(finished_run, scenes, options, message):
    with pytest.raises(Exception, match=message):
        run("hard", finished_run, scenes / "val.csv", *options)


def test_a_study_of_finished_runs_is_a_table_and_a_chart(finished_run, scenes, tmp_path):
    pytest.importorskip("matplotlib")
    again = shutil.copytree(finished_run, tmp_path / "other")
    drawn, out = tmp_path / "s.svg", tmp_path / "out"
    printed = run("study", finished_run, again, "--metric", "CF1", "--plot", drawn, "--out", out)
    spec = json.loads((finished_run / "tagger.json").read_text())
    value = f"{spec['metrics']['validation']['CF1']:.2f}"
    assert printed.count(value) == 2
    assert (out / "table.md").read_text().count(value) == 2
    assert "CF1" in drawn.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["quick"], "name the label table"),
        (["."], "not a finished tagger"),
        (["quick", "--data", "x.csv", "--seeds", "0"], "--seeds 0"),
        (["quick", "--data", "x.csv", "--sweep", "size"], "preprocess.size=160,224,288"),
        (["quick", "--data", "x.csv", "--plot", "x.gif"], "drawings are written as"),
    ],
)
def test_what_a_study_cannot_do_is_said_before_any_work(arguments, message):
    with pytest.raises(Exception, match=message):
        run("study", *arguments)
