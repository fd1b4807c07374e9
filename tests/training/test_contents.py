"""A resumed run follows data that moved, and notices images that changed or vanished."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from rich.console import Console
from safetensors.torch import load_file

import tagloom
from tagloom.errors import DataError, TagloomError
from tagloom.recipe import recipe_from_dict
from tagloom.tagger.spec import read_spec
from tagloom.training.checkpoint import CheckpointError
from tagloom.training.plan import RunPlan
from tagloom.training.run import train
from tagloom.training.state import Position

BASE: dict[str, Any] = {
    "data": {"holdout": 0.1, "max_broken": 0.06},
    "preprocess": {"size": 32},
    "training": {"epochs": 3, "batch_size": 8, "select": "last", "checkpoint_minutes": 0, "workers": 0},
}
RECIPES = {
    "cached": BASE | {"backbone": {"name": "test_efficientnet", "weights": "none"}},
    "pictures": BASE | {"backbone": {"name": "test_efficientnet", "weights": "none", "frozen": False}},
}


class Killed(Exception):  # noqa: N818  it is not an error
    """Stands for a process that ends."""


@pytest.fixture(params=list(RECIPES))
def recipe(request) -> dict[str, Any]:
    return RECIPES[request.param]


@pytest.fixture
def photos(small_photos, tmp_path) -> Path:
    return Path(shutil.copytree(small_photos, tmp_path / "photos"))


@pytest.fixture
def stopped(photos, tmp_path, recipe, monkeypatch, feature_cache) -> Path:
    """The folder of a run that ended in its second epoch."""
    steps = []
    real = Position.add_step

    def counting(position, terms):
        steps.append(real(position, terms))
        if len(steps) == 7:
            raise Killed

    monkeypatch.setattr(Position, "add_step", counting)
    with pytest.raises(Killed):
        start(photos, tmp_path / "run", recipe, feature_cache)
    monkeypatch.undo()
    return tmp_path / "run"


def start(photos: Path, out: Path, recipe: dict[str, Any], cache: Path, *, resume: bool = False) -> str:
    """Train, and give what was said."""
    console = Console(file=io.StringIO(), width=400)
    plan = RunPlan(str(photos / "train.csv"), None, recipe_from_dict(recipe), export=False)
    train(plan, out, resume=resume, device="cpu", cache_folder=cache, console=console)
    return console.file.getvalue()


def weights(out: Path) -> bytes:
    return (out / "model.safetensors").read_bytes()


def test_a_run_follows_its_data_to_another_folder_and_ends_the_same(
    stopped, photos, small_photos, tmp_path, recipe, feature_cache
):
    moved = photos.rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"photos/train.csv: no such file.*tagloom train NEW/train.csv --resume"):
        tagloom.train(out=stopped, resume=True, cache=feature_cache, show_progress=False)
    tagloom.train(moved / "train.csv", out=stopped, resume=True, cache=feature_cache, show_progress=False)
    assert RunPlan.read(stopped).data == str(moved / "train.csv")
    assert "images_changed_while_training" not in read_spec(stopped).data
    start(small_photos, tmp_path / "whole", recipe, feature_cache)
    assert weights(stopped) == weights(tmp_path / "whole")


def test_a_run_follows_its_data_when_the_table_names_every_image_otherwise(
    stopped, photos, tmp_path, recipe, feature_cache
):
    head, *rows = (photos / "train.csv").read_text().split()
    moved = photos.rename(tmp_path / "elsewhere")
    (moved / "train.csv").write_text("\n".join([head, *(f"{moved}/{row}" for row in rows)]) + "\n")
    said = start(moved, stopped, recipe, feature_cache, resume=True)
    assert "changed" not in said


def test_other_labels_in_the_same_place_are_refused(stopped, photos, tmp_path, recipe, feature_cache):
    text = (photos / "train.csv").read_text()
    (photos / "train.csv").write_text(text.replace("3.png,", "3.png,a|b|c#", 1).split("#")[0] + "\n")
    with pytest.raises(CheckpointError, match="other data"):
        start(photos, stopped, recipe, feature_cache, resume=True)


def test_images_that_changed_or_vanished_are_named_and_nothing_is_claimed(
    stopped, photos, tmp_path, recipe, feature_cache
):
    Image.new("RGB", (32, 32), "red").save(photos / "7.png")
    (photos / "11.png").unlink()
    said = start(photos, stopped, recipe, feature_cache, resume=True)
    assert "1 images have changed and 1 can no longer be read since this run started" in said
    assert str(photos / "7.png") in said
    assert str(photos / "11.png") in said
    assert "not end bit for bit" in said
    lines = [json.loads(line) for line in (stopped / "log.jsonl").read_text().splitlines()]
    (line,) = [line for line in lines if line["event"] == "changed"]
    assert line["images"] == [str(photos / "7.png"), str(photos / "11.png")]
    assert read_spec(stopped).data["images_changed_while_training"] == 2
    assert load_file(stopped / "model.safetensors")


def test_many_changed_images_are_other_data(stopped, photos, tmp_path, recipe, feature_cache):
    for number in range(3):
        Image.new("RGB", (32, 32), "red").save(photos / f"{number}.png")
    with pytest.raises(TagloomError, match=r"3 images have changed and 0 .*more than data.max_broken allows \(6.0%"):
        start(photos, stopped, recipe, feature_cache, resume=True)
    assert (stopped / "checkpoint" / "last.pt").exists()


def test_data_of_a_run_that_has_no_checkpoint_yet_is_compared_too(photos, tmp_path, recipe, monkeypatch, feature_cache):
    monkeypatch.setattr(Position, "add_step", lambda *arguments: (_ for _ in ()).throw(Killed))
    with pytest.raises(Killed):
        start(photos, tmp_path / "run", recipe, feature_cache)
    monkeypatch.undo()
    assert not (tmp_path / "run" / "checkpoint" / "last.pt").exists()
    head, *rows = (photos / "train.csv").read_text().split()
    (photos / "train.csv").write_text("\n".join([head, *reversed(rows)]) + "\n")
    with pytest.raises(CheckpointError, match="other data"):
        start(photos, tmp_path / "run", recipe, feature_cache, resume=True)
    start(photos, tmp_path / "run", recipe, feature_cache)  # but it may be started again: nothing is lost
