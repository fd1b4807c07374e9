"""`tagloom partition` and `tagloom distill` as people meet them."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tagloom.api.planning import plan_teachers
from tagloom.cli import main
from tagloom.cli.distill import read_weights
from tagloom.data import load_table
from tagloom.labels.graph import affinity, partition
from tagloom.recipe import load_recipe, override
from tagloom.tagger.spec import read_spec


@pytest.fixture
def tagloom(monkeypatch, capsys):
    """Run the command in this process and give its exit code, output and errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tagloom", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        try:
            main()
            code: object = 0
        except SystemExit as leaving:
            code = leaving.code or 0
        captured = capsys.readouterr()
        assert isinstance(code, int)
        return code, captured.out, captured.err

    return run


SMALL = """
preprocess: {size: 32}
data: {holdout: 0.2}
backbone: {name: test_efficientnet, weights: none}
optimiser: {name: adamw, learning_rate: 0.01}
training: {epochs: 8, batch_size: 16, select: last}
"""


@pytest.mark.parametrize("kind", ["co", "dis"])
def test_partition_prints_every_label_once_and_writes_what_it_prints(tagloom, scenes, tmp_path, kind):
    code, out, _ = tagloom(
        "partition", scenes / "train.csv", "--kind", kind, "--k", 3, "--seed", 2, "--json", tmp_path / "p.json"
    )
    assert code == 0
    table = load_table(scenes / "train.csv")
    found = json.loads((tmp_path / "p.json").read_text())
    assert found["parts"] == [
        [table.classes[label] for label in part] for part in partition(table.positive, 3, kind, seed=2)
    ]
    assert found["sizes"] == [len(part) for part in found["parts"]]
    for part in found["parts"]:
        assert ", ".join(part) in out
    near = affinity(table.positive, kind)
    first, second = ([table.classes.index(name) for name in part] for part in found["parts"][:2])
    assert found["affinity"][0][1] == pytest.approx(near[np.ix_(first, second)].mean(), abs=1e-5)
    assert f"{found['affinity'][0][0]:.3f}" in out


def test_partition_draws_the_affinities_ordered_by_part(tagloom, scenes, tmp_path):
    pytest.importorskip("matplotlib")
    code, out, _ = tagloom("partition", scenes / "train.csv", "--k", 3, "--plot", tmp_path / "parts.png")
    assert code == 0
    assert "parts.png" in out
    with Image.open(tmp_path / "parts.png") as picture:
        assert min(picture.size) > 300


def test_partition_refuses_a_drawing_or_a_number_that_cannot_be(tagloom, scenes, tmp_path):
    code, _, err = tagloom("partition", scenes / "train.csv", "--plot", tmp_path / "parts.gif")
    assert code == 2
    assert ".png" in err
    code, _, err = tagloom("partition", scenes / "train.csv", "--k", 25)
    assert code == 2
    assert "from 1 to 24" in err


def test_distill_goes_from_a_table_to_a_student_that_predicts_and_says_what_teachers_were_worth(
    tagloom, scenes, tmp_path
):
    (tmp_path / "small.yaml").write_text(SMALL)
    out = tmp_path / "run"
    code, shown, err = tagloom(
        "distill", scenes / "train.csv", "--val", scenes / "val.csv", "--recipe", tmp_path / "small.yaml", "--k", 2,
        "--kinds", "dis,random", "--weight", "0.5", "--weight", "random=0.25", "--random-sizes", "random", "--baseline",
        "--out", out, "--cache", tmp_path / "c",
    )  # fmt: skip
    assert code == 0, err
    assert "teacher random-2: finished" in shown
    told = " ".join(shown.split())
    assert "The student trains 20 epochs, 2.5 times the recipe's 8, and so does the baseline." in told
    # (20 + 20 + 4 x 8, and 4 x 1/3 for asking) / 8
    assert "Altogether about 9.2 times the training of tagloom train with this recipe." in told
    assert "baseline: finished, mAP" in told
    alone, student = (read_spec(folder).metrics["validation"]["mAP"] for folder in (out / "baseline", out))
    assert f"A without teachers mAP {alone:.2f}" in told
    assert f"B with teachers mAP {student:.2f} difference {student - alone:+.2f}" in told
    levels = [f"{kind} {level['validation']:.2f}" for kind, level in read_spec(out).metrics["teachers"].items()]
    assert f"Teachers, merged: mAP {', '.join(levels)} on validation data" in told
    plan = json.loads((out / "run.json").read_text())
    assert plan["distill"] == {
        "teacher_epochs": 8,
        "kinds": ["dis", "random"],
        "k": 2,
        "tau": 3.0,
        "weights": {"dis": 0.5, "random": 0.25},
        "images": "all",
        "random_sizes": "random",
        "student_epochs": 20,
        "baseline": True,
        "teacher_learning_rate": None,
    }
    assert (out / "model.onnx").exists()
    assert tagloom("predict", out, scenes / "images" / "val_000000.jpg")[0] == 0
    code, _, err = tagloom("train", "--resume", "--out", out)
    assert code == 2
    assert f"tagloom distill --resume --out {out}" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kinds", "co,diss"], "did you mean 'dis'"),
        (["--weight", "co=heavy"], "for example co=0.5"),
        (["--weight", "random=1"], "no such teachers"),
        (["--random-sizes", "random"], "is about --kinds random"),
        (["--recipe", "quik"], "did you mean 'quick'"),
        (["--set", "task=single", "--set", "loss.name=cross-entropy"], "a score of its own"),
        (["--jobs", "0"], "at least one teacher"),
        (["--resume"], "holds no run that could be resumed"),
    ],
)
def test_distill_says_what_is_wrong_before_any_work(tagloom, scenes, tmp_path, options, message):
    code, _, err = tagloom("distill", scenes / "train.csv", "--out", tmp_path / "run", *options)
    assert code == 2
    assert message in err
    assert not (tmp_path / "run").exists()


def test_distill_without_a_table_says_how_it_is_called(tagloom):
    code, _, err = tagloom("distill")
    assert code == 2
    assert "tagloom distill photos/train.csv" in err


def test_ray_that_is_not_installed_is_named_with_its_extra(tagloom, scenes, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "small.yaml").write_text(SMALL)
    code, _, err = tagloom(
        "distill", scenes / "train.csv", "--recipe", tmp_path / "small.yaml", "--k", 2, "--engine", "ray",
        "--out", tmp_path / "run", "--cache", tmp_path / "c",
    )  # fmt: skip
    assert code == 2
    assert "pip install 'tagloom[ray]'" in err


@pytest.mark.parametrize("verb", ["partition", "distill"])
def test_help_teaches(tagloom, verb):
    code, out, _ = tagloom(verb, "--help")
    assert code == 0
    assert "--k" in out
    assert "appear together" in out


def test_teachers_are_as_the_recipe_says_unless_told_otherwise():
    recipe = override(load_recipe("cpsd-coco-resnet101-448"), ["distill.k=4"])
    assert plan_teachers(None, recipe) == recipe.distill
    told = plan_teachers(None, recipe, k=2, kinds=("co",), weights=read_weights(["0.5"]))
    assert (told.k, told.kinds, told.weights, told.teacher_epochs, told.tau) == (2, ("co",), {"co": 0.5}, 20, 3.0)
    assert plan_teachers(told, recipe) == told, "a run continues with what it was started with"
    quick = load_recipe("quick")
    default = plan_teachers(None, quick)
    assert (default.teacher_epochs, default.student_epochs, quick.training.epochs) == (10, 25, 10)
    assert (default.images, default.weights) == ("all", {"co": 0.5, "dis": 0.5})
    assert plan_teachers(None, quick, student_epochs=30, teacher_epochs=7) == replace(
        default, student_epochs=30, teacher_epochs=7
    )


def test_of_two_weights_for_a_kind_the_later_one_counts():
    quick = load_recipe("quick")
    assert plan_teachers(None, quick, weights=read_weights(["0.5", "co=0.1"])).weights == {"co": 0.1, "dis": 0.5}
    assert plan_teachers(None, quick, weights=read_weights(["co=0.1", "0.5"])).weights == {"co": 0.5, "dis": 0.5}
