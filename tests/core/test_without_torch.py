"""The small install: what works without torch, and what the rest says."""

import subprocess
import sys

import pytest

# A module that is None cannot be imported, so these runs see no torch even where it is installed.
BLOCK = "import sys; sys.modules.update(dict.fromkeys(['torch', 'timm', 'onnx', 'onnxscript', 'sklearn']))\n"


def python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCK + script], capture_output=True, text=True, check=False)


def tagloom(*arguments: object) -> subprocess.CompletedProcess[str]:
    return python(f"from tagloom.cli import main; sys.argv = ['tagloom', *{list(map(str, arguments))}]; main()")


@pytest.mark.parametrize(
    "module",
    ["data", "data.audit", "data.scenes", "metrics", "recipe", "labelgraph", "inference.predictor",
     "inference.evaluation", "inference.labels", "inference.tagging", "inference.thresholds", "report.card",
     "report.audit", "report.partition", "report.reliability", "inference.calibration_fit", "ready", "words"],
)  # fmt: skip
def test_modules_of_the_small_install_need_no_torch(module):
    done = python(f"import tagloom.{module}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("train", "labels.csv"), ("distill", "labels.csv"), ("demo",), ("heads",), ("export", "run", "--out", "small")],
)
def test_verbs_that_need_torch_name_the_install(arguments):
    done = tagloom(*arguments)
    assert done.returncode == 2
    assert "pip install 'tagloom[train]'" in done.stderr


@pytest.mark.parametrize("name", ["create_head", "create_backbone", "attach_head"])
def test_public_names_that_need_torch_name_the_install(name):
    done = python(f"import tagloom; tagloom.{name}")
    assert "tagloom[train]" in done.stderr
    assert "MissingExtraError" in done.stderr


def test_tables_scenes_and_recipes_work(tmp_path):
    assert tagloom("scenes", tmp_path / "scenes", "--images", 8).returncode == 0
    done = tagloom("check", tmp_path / "scenes" / "train.csv")
    assert done.returncode == 0, done.stderr
    assert "8" in done.stdout
    done = tagloom("recipes", "validate", "quick")
    assert done.returncode == 0
    assert "not checked" in done.stdout


def test_labels_that_are_typed_are_scored_without_torch(word_run, scenes, tmp_path):
    picture = sorted((scenes / "images").iterdir())[0]
    done = tagloom("predict", word_run, picture, "--labels", "car, golden heart", "--top-k", 1)
    assert done.returncode == 0, done.stderr
    assert "car" in done.stdout or "golden heart" in done.stdout
