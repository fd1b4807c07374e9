"""Trainings of a tail from a cached stage: from table to tagger, resumed, shared, started from and distilled."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tagloom.data import load_table
from tagloom.data.reading import read_pictures
from tagloom.errors import RecipeError, TaggerError
from tagloom.metrics import score
from tagloom.models.network import build_network, load_network
from tagloom.predict.tagger import load
from tagloom.recipe import recipe_from_dict
from tagloom.recipe.distillation import Distillation
from tagloom.recipe.filling import merge_settings
from tagloom.tagger.spec import read_spec
from tagloom.training import loop as loop_module
from tagloom.training.distill.asking import merge_teachers
from tagloom.training.distill.run import distill
from tagloom.training.distill.teachers import list_teachers, read_partitions
from tagloom.training.plan import RunPlan
from tagloom.training.run import train
from tagloom.training.tables import load_tables

TAIL = {
    "preprocess": {"size": 32},
    "data": {"holdout": 0.2},
    "augment": {"flip": 0.5},
    "backbone": {"name": "test_efficientnet", "weights": "none", "train_from": 3},
    "head": {"name": "gap", "options": {"dropout": 0.2}},
    "optimiser": {"name": "adamw", "learning_rate": 0.01, "backbone_factor": 0.1},
    "training": {"epochs": 3, "batch_size": 16, "select": "last", "ema": 0.9, "checkpoint_minutes": 0},
}
"""Everything with a state: dropout, momentum, averages, views, and below it a frozen part."""


def plan(scenes: Path, changes: dict[str, Any] | None = None, **options: Any) -> RunPlan:
    recipe = recipe_from_dict(merge_settings(TAIL, changes or {}))
    return RunPlan(str(scenes / "train.csv"), str(scenes / "val.csv"), recipe, **{"export": False} | options)


def computed(folder: Path) -> list[int]:
    """How many images went through the backbone in each pass of a run."""
    rows = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [row["computed"] for row in rows if row["event"] == "features"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, scenes, feature_cache) -> Path:
    """A tagger with a trained tail, exported."""
    out = tmp_path_factory.mktemp("tails") / "finished"
    train(plan(scenes, export=True), out, cache_folder=feature_cache)
    return out


def first_weights() -> dict[str, torch.Tensor]:
    """The backbone before the first step."""
    torch.manual_seed(0)
    network = build_network(
        backbone="test_efficientnet", weights="none", head="gap", head_options={}, classes=12, size=32, frozen=True
    )
    return {f"backbone.{name}": value for name, value in network.backbone.state_dict().items()}


def test_the_tail_is_trained_and_what_comes_before_it_stays(finished):
    before, after = first_weights(), load_file(finished / "model.safetensors")
    changed = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert changed
    parts = {name.removeprefix("backbone.net.").partition(".")[0] for name in changed}
    assert parts == {"blocks", "conv_head", "bn2"}
    assert not [
        name for name in changed if name.startswith(tuple(f"backbone.net.blocks.{stage}." for stage in range(3)))
    ]
    assert not [name for name in changed if "running" in name], "statistics are frozen unless the recipe says otherwise"
    trained = read_spec(finished).data["trained_parameters"]
    assert 0 < trained < read_spec(finished).data["parameters"]


def test_the_exported_tagger_gives_what_torch_and_the_training_gave(finished, scenes):
    table, spec = load_table(scenes / "val.csv"), read_spec(finished)
    paths = [table.path(row) for row in range(len(table))]
    scores = load(finished, device="cpu").scores(paths)
    batches = read_pictures(paths, spec.preprocess, batch_size=len(paths), threads=1)
    with torch.no_grad():
        logits = load_network(finished, spec)(torch.from_numpy(next(batches).pixels))
    np.testing.assert_allclose(scores, logits.sigmoid().numpy(), atol=1e-4)
    found = score(scores, table.targets(np.arange(len(table))))
    assert found["mAP"] == pytest.approx(spec.metrics["validation"]["mAP"], abs=1e-3)


def test_a_run_that_was_stopped_and_resumed_ends_with_the_same_bytes(
    finished, scenes, feature_cache, tmp_path, monkeypatch
):
    take_step, steps = loop_module._Loop._take_step, []

    def dying(self, batches):
        take_step(self, batches)
        steps.append(1)
        if len(steps) == 5:  # in the second epoch
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop_module._Loop, "_take_step", dying)
        with pytest.raises(KeyboardInterrupt):
            train(plan(scenes, export=True), tmp_path / "run", cache_folder=feature_cache)
    assert not (tmp_path / "run" / "tagger.json").exists()
    train(RunPlan.read(tmp_path / "run"), tmp_path / "run", resume=True, cache_folder=feature_cache)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()


def test_cached_maps_and_pictures_train_the_same_tail(scenes, feature_cache, tmp_path):
    plain = {"augment": {"flip": 0.0}, "head": {"options": {"dropout": 0.0}}}
    train(plan(scenes, plain), tmp_path / "cached", cache_folder=feature_cache)
    pictures = merge_settings(plain, {"training": {"cache_features": False, "workers": 0}})
    train(plan(scenes, pictures), tmp_path / "pictures", cache_folder=feature_cache)
    cached, pictured = (load_file(tmp_path / name / "model.safetensors") for name in ("cached", "pictures"))
    for name, value in cached.items():
        torch.testing.assert_close(
            pictured[name], value, rtol=5e-3, atol=5e-3, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_trained_statistics_move(scenes, feature_cache, tmp_path):
    train(plan(scenes, {"backbone": {"tail_statistics": "trained"}}), tmp_path / "run", cache_folder=feature_cache)
    before, after = first_weights(), load_file(tmp_path / "run" / "model.safetensors")
    name = "backbone.net.bn2.running_mean"
    assert not torch.equal(before[name], after[name])
    assert torch.equal(before["backbone.net.bn1.running_mean"], after["backbone.net.bn1.running_mean"])


def test_another_head_and_another_tail_find_their_features_in_the_cache(finished, scenes, feature_cache, tmp_path):
    other = {"head": {"name": "ml-decoder-small"}, "training": {"epochs": 1}}
    train(plan(scenes, other), tmp_path / "head", cache_folder=feature_cache)
    assert computed(tmp_path / "head") == [0, 0, 0]
    train(plan(scenes, start=str(finished)), tmp_path / "started", cache_folder=feature_cache)
    assert computed(tmp_path / "started") == [0, 0, 0], "weights of the tail do not count"
    deeper = {"backbone": {"train_from": 4}, "training": {"epochs": 1}}
    train(plan(scenes, deeper), tmp_path / "deeper", cache_folder=feature_cache)
    assert all(computed(tmp_path / "deeper"))


def test_maps_in_8_bits_have_a_cache_of_their_own_and_train(scenes, feature_cache, tmp_path, monkeypatch):
    monkeypatch.setattr("tagloom.training.features.stored.FLOAT32_VALUES", 10)  # 32 x 4 x 4 would be stored exactly
    eight = {"training": {"cached_maps": "uint8", "epochs": 1}}
    train(plan(scenes, eight), tmp_path / "eight", cache_folder=feature_cache)
    assert computed(tmp_path / "eight") == [60, 48, 16]
    train(plan(scenes, eight), tmp_path / "again", cache_folder=feature_cache)
    assert computed(tmp_path / "again") == [0, 0, 0]
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("eight", "again")]
    assert weights[0] == weights[1]


def test_a_head_that_reads_an_earlier_stage_is_refused_before_any_image_is_read(scenes, feature_cache, tmp_path):
    early = {"head": {"name": "layover", "options": {"stages": [2]}}}
    with pytest.raises(TaggerError, match=r"reads stage 2, .* It can after the stages 1, 2\."):
        train(plan(scenes, early), tmp_path / "run", cache_folder=feature_cache)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backbone": {"train_from": 3, "frozen": False}}, "backbone.frozen: true"),
        ({"backbone": {"train_from": 0}}, "backbone.train_from is 0"),
        ({"backbone": {"train_from": 2.5}}, "train_from: expected a whole number"),
        ({"backbone": {"tail_statistics": "trained"}}, "set backbone.train_from too"),
        ({"backbone": {"frozen": False}, "training": {"cached_maps": "uint8"}}, "nothing is cached"),
        ({"training": {"cached_maps": "int4"}}, "float16, uint8"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, message):
    with pytest.raises(RecipeError, match=message):
        recipe_from_dict(settings)


@pytest.fixture(scope="module")
def student(tmp_path_factory, scenes, feature_cache) -> tuple[RunPlan, Path]:
    """A student with a tail under four teachers with tails."""
    out = tmp_path_factory.mktemp("tails") / "student"
    distilled = replace(plan(scenes), distill=Distillation(1, k=2))
    distill(distilled, out, cache_folder=feature_cache)
    return distilled, out


def test_teachers_with_tails_are_asked_about_the_same_cached_maps_and_give_what_they_give_about_pictures(
    student, feature_cache
):
    distilled, out = student
    tables = load_tables(distilled)
    teachers = list_teachers(distilled, tables, read_partitions(out, tables.table), out)
    of_kind = [teacher for teacher in teachers if teacher.kind == "co"]
    cpu, classes = torch.device("cpu"), tables.table.classes
    uncached = replace(distilled.recipe, training=replace(distilled.recipe.training, cache_features=False))
    shown_pictures = [replace(teacher, plan=replace(teacher.plan, recipe=uncached)) for teacher in of_kind]
    from_maps = merge_teachers(of_kind, classes, cpu)
    from_pictures = merge_teachers(shown_pictures, classes, cpu)
    network = load_network(out, read_spec(out))
    network.backbone.train_from(3, size=32)
    paths = [tables.table.path(row) for row in range(8)]
    (batch,) = read_pictures(paths, distilled.recipe.preprocess, batch_size=8, threads=1)
    pictures = torch.from_numpy(batch.pixels)
    with torch.no_grad():
        torch.testing.assert_close(from_maps(*network.kept(pictures)), from_pictures(pictures), rtol=1e-4, atol=1e-4)
    assert all(computed(teacher.folder) == [0] * len(computed(teacher.folder)) for teacher in teachers)
