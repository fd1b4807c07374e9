"""`tagloom explain` and `tagloom report` as people meet them."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image


@pytest.fixture
def photo(scenes) -> Path:
    return next((scenes / "images").glob("val_*.jpg"))


def test_the_ready_tagger_explains_out_of_the_box(tagloom, photo, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = tagloom("explain", photo, "--label", "dog", "--label", "kite", "--out", "new/heat.png")
    assert code == 0, err
    assert "dog" in out
    assert Image.open("new/heat.png").width > 900  # the image and two maps
    code, out, err = tagloom("explain", photo)
    assert code == 0, err
    assert (tmp_path / f"{photo.stem}-heat.png").is_file()


def test_stages_are_drawn_side_by_side(tagloom, finished_run, photo, tmp_path) -> None:
    one, three = tmp_path / "1.png", tmp_path / "3.jpg"
    assert tagloom("explain", finished_run, photo, "--stages", "2", "--out", one)[0] == 0
    labels = ("--label", "boat", "--label", "car")
    code, _, err = tagloom(
        "explain", finished_run, photo, "--stages", "1,2,4", "--method", "grad-cam++", *labels, "--out", three
    )
    assert code == 0, err
    assert Image.open(three).width > Image.open(one).width
    assert Image.open(three).height > 1.5 * Image.open(one).height  # a row for each label


def test_student_and_teachers_stand_side_by_side(tagloom, untrained_run, photo, tmp_path) -> None:
    student = tmp_path / "student"
    shutil.copytree(untrained_run, student)
    for name, classes in {
        "co-1": ["cat", "dog"],
        "co-2": ["sofa", "car"],
        "dis-1": ["cat", "sofa"],
        "dis-2": ["dog", "car"],
    }.items():
        teacher = student / "teachers" / name
        shutil.copytree(untrained_run, teacher)
        spec = json.loads((teacher / "tagger.json").read_text())
        spec["classes"] = [*classes, *(f"{name} {number}" for number in range(3))]
        (teacher / "tagger.json").write_text(json.dumps(spec))
    out = tmp_path / "t.png"
    code, _, err = tagloom("explain", "--teachers", student, photo, "--label", "car", "--out", out)
    assert code == 0, err
    assert Image.open(out).width == pytest.approx(4 * 332 + 12, abs=2)  # the image, student, co-2, dis-2
    assert "none of its teachers knows 'tree'" in tagloom("explain", "--teachers", student, photo, "--label", "tree")[2]
    assert "has no teachers" in tagloom("explain", "--teachers", untrained_run, photo, "--label", "car")[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--label", "zebra"), "unknown label 'zebra'. This tagger (head 'gap') knows its 5 labels only: "),
        (("--label", "Dogg"), "unknown label 'Dogg': did you mean 'dog'?"),
        (("--layer", "2"), "--layer and --data-option belong to --experts"),
        (("--limit", "5"), "belong to --experts"),
        (("--method", "attention"), "does not fit the head 'gap'"),
        (("--stages", "0"), "write numbers from 1"),
        (("--stages", "77"), "has the stages 1 to"),
        (("--plot", "x.png"), "belong to --experts"),
        (("--out", "heat.pdf", "--label", "cat"), "end the name in one of these"),
        (("--teachers",), "name a run and a label"),
        (("--experts", "--label", "cat"), "--experts takes RUN and DATA"),
    ],
)
def test_what_cannot_be_drawn_is_said(tagloom, untrained_run, photo, arguments, message) -> None:
    code, out, err = tagloom("explain", untrained_run, photo, *arguments)
    assert code == 2
    assert message in " ".join(err.split())
    assert out == "", "nothing is computed first"


def test_an_exported_tagger_says_what_stages_need(tagloom, photo) -> None:
    _, _, err = tagloom("explain", photo, "--stages", "1,2")
    assert "need the weights (model.safetensors), and an exported tagger has none" in " ".join(err.split())
    assert "--device" not in err


def test_a_report_has_the_figures_of_evaluate(tagloom, finished_run, scenes, tmp_path) -> None:
    code, out, err = tagloom("report", finished_run, scenes / "train.csv", "--out", tmp_path / "report.html")
    assert code == 0, err
    tagloom("evaluate", finished_run, scenes / "train.csv", "--json", tmp_path / "e.json")
    value = f"{json.loads((tmp_path / 'e.json').read_text())['mAP']:.2f}"
    assert f"mAP {value}" in out
    assert f"<dd>{value}</dd>" in (tmp_path / "report.html").read_text()
    code, _, err = tagloom("report", finished_run, scenes / "train.csv", "--out", tmp_path / "report.txt")
    assert code == 2
    assert "end the name in .html" in err
