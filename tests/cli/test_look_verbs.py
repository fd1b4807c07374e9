"""`tagloom compare` as people meet it."""

import json
import shutil
from pathlib import Path

import pytest

from tagloom.cli.compare import short_names


def with_classes(run: Path, out: Path, change) -> Path:
    """The same tagger, whose classes are called otherwise: as good as one that answers for the wrong labels."""
    shutil.copytree(run, out)
    spec = json.loads((out / "tagger.json").read_text())
    spec["classes"] = change(spec["classes"])
    (out / "tagger.json").write_text(json.dumps(spec))
    return out


@pytest.fixture
def muddled(finished_run, tmp_path) -> Path:
    return with_classes(finished_run, tmp_path / "muddled", lambda names: names[1:] + names[:1])


def test_two_taggers_are_compared_printed_written_and_drawn(tagloom, finished_run, muddled, scenes, tmp_path):
    pytest.importorskip("matplotlib")
    written, drawn = tmp_path / "new" / "c.json", tmp_path / "new" / "c.png"
    code, out, err = tagloom(
        "compare", muddled, finished_run, scenes / "train.csv", "--json", written, "--plot", drawn,
        "--gap", "car,boat", "--gap", "moon, star", "--pairs", 3, "--resamples", 50,
    )  # fmt: skip
    assert code == 0, err
    content = json.loads(written.read_text())
    tagloom("evaluate", finished_run, scenes / "train.csv", "--json", tmp_path / "e.json")
    metrics = json.loads((tmp_path / "e.json").read_text())
    assert content["mAP"]["second"] == pytest.approx(metrics["mAP"])
    assert content["mAP"]["difference"] > 0
    assert f"{content['mAP']['second']:.2f}" in out
    assert len(content["labels"]) + len(content["without_positive"]) == 24
    assert len(content["improved_together"]) == 3
    assert [gap["labels"] for gap in content["gaps"]] == [["car", "boat"], ["moon", "star"]]
    assert "moon, star" in out
    assert drawn.read_bytes().startswith(b"\x89PNG")


def test_taggers_that_share_some_classes_name_the_rest(tagloom, finished_run, scenes, tmp_path):
    other = with_classes(finished_run, tmp_path / "other", lambda names: ["yak", "gnu", *names[2:]])
    first, second, *_ = json.loads((finished_run / "tagger.json").read_text())["classes"]
    code, _, err = tagloom("compare", finished_run, other, scenes / "val.csv")
    assert code == 2
    assert "for the second tagger" in err
    assert "--ignore-other-labels" in err
    code, out, _ = tagloom("compare", finished_run, other, scenes / "val.csv", "--ignore-other-labels", "--all")
    assert code == 0
    assert f"Left out, because B does not know them (2): {first}, {second}" in out
    assert "Left out, because A does not know them (2): yak, gnu" in out


def test_taggers_without_a_common_class_are_refused(tagloom, finished_run, scenes, tmp_path):
    other = with_classes(finished_run, tmp_path / "other", lambda names: [f"no {name}" for name in names])
    code, _, err = tagloom("compare", finished_run, other, scenes / "val.csv", "--ignore-other-labels")
    assert code == 2
    assert "shares no class" in err


def test_the_same_tagger_twice_is_refused_however_it_is_spelt(tagloom, finished_run, scenes):
    for spelling in (finished_run, finished_run / ".." / finished_run.name):
        code, _, err = tagloom("compare", finished_run, spelling, scenes / "val.csv")
        assert code == 2
        assert "same tagger" in err


def test_what_cannot_work_is_said_before_anything_is_scored(tagloom, finished_run, muddled, scenes, monkeypatch):
    def never(*arguments, **options):
        raise AssertionError("scored")

    monkeypatch.setattr("tagloom.evaluation.compare.evaluate", never)
    for arguments, message in [
        ((finished_run, "runs/nowhere"), "runs/nowhere: no such folder"),
        ((finished_run, muddled, "--gap", "car,boaat"), "did you mean 'boat'?"),
        ((finished_run, muddled, "--gap", "car"), "comma"),
        ((finished_run, muddled, "--plot", "x.gif"), "x.gif: drawings are written as"),
    ]:
        code, _, err = tagloom("compare", *arguments[:2], scenes / "val.csv", *arguments[2:])
        assert code == 2
        assert message in err


def test_a_gap_that_cannot_be_measured_is_no_reason_to_stop(tagloom, finished_run, muddled, scenes, tmp_path):
    lines = (scenes / "val.csv").read_text().splitlines()
    rows = [line if line.startswith("image,") else f"{scenes}/{line}" for line in lines if "boat" not in line]
    (tmp_path / "val.csv").write_text("\n".join(rows))
    code, out, err = tagloom("compare", finished_run, muddled, tmp_path / "val.csv", "--gap", "car,boat")
    assert code == 0
    assert "no gap between car and boat" in err
    assert "mAP" in out


def test_runs_are_called_by_their_folders_unless_those_are_alike():
    assert short_names("runs/a", "hf-hub:me/b") == ("a", "b")
    assert short_names("x/tagger", "y/tagger/") == ("x/tagger", "y/tagger/")
    assert short_names(".", "runs/b") == (".", "runs/b")
