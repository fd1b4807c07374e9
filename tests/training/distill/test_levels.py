"""How good merged teachers are, next to the student without teachers, and what is said of it."""

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from tagloom.metrics import score
from tagloom.predict.tagger import load
from tagloom.recipe import recipe_from_dict
from tagloom.recipe.distillation import Distillation
from tagloom.tagger.spec import CARD_FILE, SPEC_FILE, read_spec
from tagloom.training.context import RunContext
from tagloom.training.distill import local_jobs as jobs_module
from tagloom.training.distill.levels import report_levels
from tagloom.training.distill.run import distill
from tagloom.training.log import RunLog
from tagloom.training.plan import RunPlan
from tagloom.training.run import train
from tagloom.training.signals import StopRequest
from tagloom.training.tables import load_tables

SETTINGS = Distillation(3, k=2, student_epochs=5, baseline=True)
RECIPE = {
    "preprocess": {"size": 32},
    "data": {"holdout": 0.2},
    "augment": {"flip": 0.5},
    "backbone": {"name": "test_efficientnet", "weights": "none"},
    "optimiser": {"name": "adamw", "learning_rate": 0.01},
    "training": {"epochs": 2, "batch_size": 16, "select": "last"},
}


@pytest.fixture(scope="module")
def plan(scenes) -> RunPlan:
    data, val = str(scenes / "train.csv"), str(scenes / "val.csv")
    return RunPlan(data, val, recipe_from_dict(RECIPE), export=False, distill=SETTINGS)


@pytest.fixture(scope="module")
def told(tmp_path_factory, plan, feature_cache) -> tuple[Path, str]:
    """A student with a baseline, and what was printed meanwhile."""
    out, text = tmp_path_factory.mktemp("students") / "student", io.StringIO()
    distill(plan, out, cache_folder=feature_cache, console=Console(file=text, width=400))
    return out, text.getvalue()


def precision_of(folder: Path, kind: str, table) -> float:
    """mAP of all teachers of a kind, each tagging the pictures by itself."""
    scores = np.zeros((len(table), len(table.classes)))
    for teacher in sorted((folder / "teachers").glob(f"{kind}-*")):
        tagger = load(teacher, device="cpu")
        columns = [table.classes.index(name) for name in tagger.classes]
        scores[:, columns] = tagger.scores([table.path(row) for row in range(len(table))])
    return float(score(scores, table.targets(slice(None)))["mAP"])


def test_merged_teachers_are_measured_on_images_that_nobody_learned_from(told, plan):
    out, _ = told
    tables, measured = load_tables(plan), read_spec(out).metrics["teachers"]
    held_out = tables.table.select(tables.held_out)
    for kind in ("co", "dis"):
        assert measured[kind]["validation"] == pytest.approx(precision_of(out, kind, tables.val), abs=0.01)
        assert measured[kind]["held_aside"] == pytest.approx(precision_of(out, kind, held_out), abs=0.01)


def test_the_baseline_is_the_student_trained_alone_as_long_as_under_teachers(told, plan, feature_cache, tmp_path):
    out, _ = told
    longer = replace(plan.recipe, training=replace(plan.recipe.training, epochs=5))
    train(replace(plan, recipe=longer, distill=None), tmp_path / "plain", cache_folder=feature_cache)
    assert (out / "baseline" / "model.safetensors").read_bytes() == (tmp_path / "plain/model.safetensors").read_bytes()
    assert read_spec(out).data["epochs"] == read_spec(out / "baseline").data["epochs"] == 5
    alone = read_spec(out / "baseline").metrics
    assert read_spec(out).metrics["baseline"] == {part: alone[part]["mAP"] for part in ("validation", "held_aside")}


def test_levels_are_printed_side_by_side_and_logged(told):
    out, text = told
    metrics = read_spec(out).metrics
    level, alone = metrics["teachers"]["co"]["validation"], metrics["baseline"]["validation"]
    assert f"co teachers, merged: mAP {level:.2f} on validation images (the student alone: {alone:.2f})" in text
    assert "Teachers: 4, of 3 epochs each, on all images. The student trains 5 epochs, 2.5 times the recipe's 2" in text
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    logged = {line["teachers"]: line for line in lines if line["event"] == "merged_teachers"}
    assert logged["dis"]["mAP"] == metrics["teachers"]["dis"]
    assert logged["dis"]["baseline"] == metrics["baseline"]
    card = (out / CARD_FILE).read_text()
    assert f"- its teachers, merged, co: mAP {level:.2f} (validation)" in card
    assert f"- the same without teachers: mAP {alone:.2f} (validation)" in card


def report(folder: Path, level: float, alone: dict[str, float], images: str) -> tuple[str, dict]:
    text = io.StringIO()
    with RunLog(folder, Console(file=text, width=400)) as log, StopRequest() as stop:
        context = RunContext(folder, torch.device("cpu"), folder, stop, log)
        settings = replace(SETTINGS, images=images)
        found = report_levels({"co": {"validation": level, "held_aside": 99.0}}, alone, settings, context)
    return text.getvalue(), found


@pytest.mark.parametrize(("images", "first"), [("all", "train them longer"), ("with-labels", "show them all images")])
def test_teachers_that_are_worse_than_the_student_alone_are_named_with_the_fix(tmp_path, images, first):
    text, _ = report(tmp_path, 50.1, {"validation": 58.0, "held_aside": 57.0}, images)
    assert "the co teachers, merged, are worse than the student alone (50.10 and 58.00)" in text
    assert f"in another --out, {first}" in text
    assert "--teacher-epochs 6" in text
    text, _ = report(tmp_path, 58.1, {"validation": 58.0, "held_aside": 57.0}, images)
    assert "worse" not in text


def test_where_the_student_alone_is_not_known_nothing_is_said_of_it(tmp_path):
    text, found = report(tmp_path, 50.1, {}, "all")
    assert "co teachers, merged: mAP 50.10 on validation images\n" in text
    assert "alone" not in text
    assert found == {"teachers": {"co": {"validation": 50.1, "held_aside": 99.0}}}


def test_without_any_image_to_measure_on_there_are_no_levels(scenes, feature_cache, tmp_path):
    recipe = recipe_from_dict({**RECIPE, "data": {"holdout": 0.0}})
    plan = RunPlan(
        str(scenes / "train.csv"), None, recipe, export=False, distill=Distillation(1, ("self",), baseline=True)
    )
    result = distill(plan, tmp_path / "run", cache_folder=feature_cache)
    assert result.metrics == read_spec(tmp_path / "run").metrics == {}


def test_a_finished_baseline_is_kept_and_a_missing_one_is_trained_again(
    told, plan, feature_cache, tmp_path, monkeypatch
):
    finished, _ = told
    out = Path(shutil.copytree(finished, tmp_path / "run"))
    for name in (SPEC_FILE, "baseline/" + SPEC_FILE, "baseline/model.safetensors"):
        (out / name).unlink()
    trained = []
    real = jobs_module.train
    monkeypatch.setattr(
        jobs_module,
        "train",
        lambda plan, folder, **options: (trained.append(folder.name), real(plan, folder, **options)),
    )
    distill(RunPlan.read(out), out, resume=True, cache_folder=feature_cache)
    assert trained == ["baseline"]
    for name in ("model.safetensors", "baseline/model.safetensors"):
        assert (out / name).read_bytes() == (finished / name).read_bytes()
