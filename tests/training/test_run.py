"""A training from table to tagger folder, in every mode, with whole, broken and missing data."""

import csv
import io
import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from safetensors.torch import load_file

from tagloom.data import load_table
from tagloom.errors import DataError, RecipeError, TaggerError, TagloomError
from tagloom.evaluation.evaluate import evaluate
from tagloom.metrics import score
from tagloom.predict.tagger import load
from tagloom.recipe import recipe_from_dict
from tagloom.scoring.calibration import to_scores
from tagloom.tagger.spec import read_spec
from tagloom.training import finish as finish_module
from tagloom.training import run as run_module
from tagloom.training import tables as tables_module
from tagloom.training.checkpoint import CheckpointError, run_identity
from tagloom.training.features import prepare as prepare_module
from tagloom.training.features.feature_batches import FeatureBatches
from tagloom.training.features.picture_batches import PictureBatches
from tagloom.training.plan import RUN_FILE, RunPlan
from tagloom.training.run import train
from tagloom.training.signals import StopRequest
from tagloom.training.tables import Tables

TINY = {
    "preprocess": {"size": 32},
    "data": {"holdout": 0.2},
    "backbone": {"name": "test_efficientnet", "weights": "none", "frozen": False},
    "training": {"epochs": 2, "batch_size": 16, "workers": 0, "select": "last"},
}
"""A small network that is trained whole, on pictures."""


class Reached(Exception):  # noqa: N818  it is not an error
    """The loop was reached: all that comes before the first epoch is done."""


@pytest.fixture
def at_the_loop(monkeypatch):
    """Stop every training where its loop would begin, and give what the loop was handed."""
    handed: dict[str, Any] = {}
    real = run_module.make_batches

    def noting(*arguments):
        handed["run"] = real(*arguments)
        return handed["run"]

    def fit(module, task, batches, *arguments, **options):
        handed.update(module=module, task=task, batches=batches, **options)
        raise Reached

    monkeypatch.setattr(run_module, "make_batches", noting)
    monkeypatch.setattr(run_module, "fit", fit)
    return handed


@pytest.fixture
def no_export(monkeypatch):
    """Leave out model.onnx: writing it takes seconds, and it has its own tests."""
    monkeypatch.setattr(finish_module, "export_network", lambda *arguments, **options: 0.0)


@pytest.fixture
def photos(tmp_path, scenes) -> Path:
    """A copy of the scenes that a test may break."""
    return Path(shutil.copytree(scenes, tmp_path / "photos"))


def plan_for(folder: Path, content: dict[str, Any], *, val: bool = True) -> RunPlan:
    return RunPlan(str(folder / "train.csv"), str(folder / "val.csv") if val else None, recipe_from_dict(content))


def events(out: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == kind]


def break_images(folder: Path, count: int, start: int = 0) -> list[Path]:
    images = sorted((folder / "images").glob("train_*.jpg"))[start : start + count]
    for image in images:
        image.write_bytes(image.read_bytes()[:300])
    return images


# What a finished run leaves


def test_a_finished_run_leaves_a_tagger_and_nothing_half_done(finished_run):
    names = {path.name for path in finished_run.iterdir()}
    assert {
        "model.safetensors",
        "tagger.json",
        "README.md",
        "model.onnx",
        "log.jsonl",
        "recipe.yaml",
        RUN_FILE,
    } == names


def test_the_tagger_says_where_it_comes_from_and_what_it_scored(finished_run, scenes):
    spec = read_spec(finished_run)
    assert spec.classes == load_table(scenes / "train.csv").classes
    assert spec.preprocess.size == 64
    assert len(spec.thresholds) == len(spec.classes)
    assert recipe_from_dict(spec.recipe).name == "quick-test"
    assert set(spec.metrics) == {"validation", "held_aside"}
    assert spec.metrics["validation"]["images"] == 16
    assert spec.metrics["held_aside"]["images"] == 12
    assert (spec.data["images_learned_from"], spec.data["images_held_aside"]) == (48, 12)
    assert spec.data["epochs"] == 4
    assert spec.data["trained_parameters"] == 1280 * 24 + 24
    assert "mAP" in (finished_run / "README.md").read_text()


def test_the_log_holds_an_epoch_a_line_and_the_final_figures(finished_run):
    assert [line["epoch"] for line in events(finished_run, "epoch")] == [1, 2, 3, 4]
    (finish,) = events(finished_run, "finish")
    assert finish["validation"] == read_spec(finished_run).metrics["validation"]["mAP"]


def test_the_result_says_where_the_tagger_is_and_the_table_is_read_once(scenes, tmp_path, no_export, monkeypatch):
    read: list[str] = []

    def noting(path, **options):
        read.append(str(path))
        return load_table(path, **options)

    monkeypatch.setattr(tables_module, "load_table", noting)
    plan = plan_for(scenes, TINY)
    result = train(plan, tmp_path / "run", cache_folder=tmp_path)
    assert result.folder == tmp_path / "run"
    assert read == [plan.data, plan.val]


@pytest.mark.parametrize("cached", [True, False])
def test_without_a_terminal_a_run_says_which_stage_it_is_in(scenes, feature_cache, quick, tmp_path, cached):
    quick["training"] |= {"cache_features": cached, "workers": 0, "epochs": 2}
    console = Console(file=io.StringIO(), width=200)
    train(plan_for(scenes, quick), tmp_path / "run", cache_folder=feature_cache, console=console)
    lines = iter(console.file.getvalue().splitlines())
    expected = ["reading training images: ", "reading validation images: ", "training steps: 0 of ",
                "scoring validation images: ", "epoch   1  loss ", "epoch   2  loss ", "scoring held-out images: ",
                "writing model.onnx"]  # fmt: skip
    for start in expected:
        assert any(line.startswith(start) for line in lines), start


def test_training_learns(finished_run, scenes):
    table = load_table(scenes / "train.csv")
    scored = load(finished_run).scores([table.path(row) for row in range(len(table))])
    targets = table.targets(slice(None)).astype(bool)
    assert scored[targets].mean() > scored[~targets].mean() + 0.1


def test_the_same_run_gives_the_same_bytes_and_takes_its_features_from_the_cache(
    finished_run, scenes, feature_cache, quick, tmp_path, no_export
):
    train(plan_for(scenes, quick), tmp_path / "again", cache_folder=feature_cache)
    name = "model.safetensors"
    assert (tmp_path / "again" / name).read_bytes() == (finished_run / name).read_bytes()
    assert all(line["computed"] == 0 for line in events(tmp_path / "again", "features"))


def test_another_seed_gives_other_weights(finished_run, scenes, feature_cache, quick, tmp_path, no_export):
    quick["training"]["seed"] = 1
    train(plan_for(scenes, quick), tmp_path / "other", cache_folder=feature_cache)
    assert (tmp_path / "other" / "model.safetensors").read_bytes() != (finished_run / "model.safetensors").read_bytes()


# Modes


def test_pictures_and_cached_features_train_the_same_head(finished_run, scenes, quick, tmp_path, no_export):
    quick["training"] |= {"cache_features": False, "workers": 0}
    train(plan_for(scenes, quick), tmp_path / "run", cache_folder=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    cached, pictures = (load_file(folder / "model.safetensors") for folder in (finished_run, tmp_path / "run"))
    assert set(cached) == set(pictures)
    for name, value in cached.items():
        torch.testing.assert_close(pictures[name], value, rtol=1e-2, atol=1e-3)
    ours, theirs = (read_spec(folder).metrics["validation"]["mAP"] for folder in (finished_run, tmp_path / "run"))
    assert ours == pytest.approx(theirs, abs=0.5)


def test_a_network_that_is_not_frozen_is_trained_whole_and_predicts(scenes, tmp_path, no_export):
    result = train(plan_for(scenes, TINY, val=False), tmp_path / "run", cache_folder=tmp_path / "cache")
    assert set(result.metrics) == {"held_aside"}
    spec = read_spec(tmp_path / "run")
    assert spec.data["trained_parameters"] == spec.data["parameters"]
    tagger = load(tmp_path / "run")
    assert tagger.engine == "torch"
    scores = tagger.scores(sorted((scenes / "images").glob("val_*.jpg"))[:3])
    assert scores.shape == (3, len(spec.classes))
    assert np.isfinite(scores).all()
    statistics = load_file(tmp_path / "run" / "model.safetensors")["backbone.net.bn1.running_mean"]
    assert (statistics != 0).any(), "batch norms moved"


def test_the_number_of_workers_does_not_change_a_byte(scenes, tmp_path, no_export):
    mixed = {"repeats": 2, "mixup": 0.2, "cutmix": 1.0}
    content = TINY | {"augment": {"flip": 0.5, "randaugment_ops": 1} | mixed, "optimiser": {"name": "lamb"}}
    for workers in (0, 2):
        content["training"] = TINY["training"] | {"workers": workers}
        train(plan_for(scenes, content, val=False), tmp_path / str(workers), cache_folder=tmp_path / "cache")
    first, second = (tmp_path / str(workers) / "model.safetensors" for workers in (0, 2))
    assert first.read_bytes() == second.read_bytes()


def test_mirrored_views_are_extracted_for_training_images_only(scenes, feature_cache, quick, tmp_path, at_the_loop):
    quick["augment"] = {"flip": 0.5}
    with pytest.raises(Reached):
        train(plan_for(scenes, quick), tmp_path / "run", cache_folder=feature_cache)
    told = [(line["part"], line["view"], line["images"]) for line in events(tmp_path / "run", "features")]
    assert told == [("training images", "", 60), ("training images", "mirrored", 48), ("validation images", "", 16)]
    plain, mirrored = at_the_loop["batches"].views
    rows = np.arange(48)
    assert not np.allclose(plain.gather(rows)[0], mirrored.gather(rows)[0])
    similar = [np.corrcoef(a, b)[0, 1] for a, b in zip(plain.gather(rows)[0], mirrored.gather(rows)[0], strict=True)]
    assert np.mean(similar) > 0.7, "a mirrored picture resembles itself"


def test_augmented_views_are_extracted_once_and_learned_from(scenes, feature_cache, quick, tmp_path, at_the_loop):
    quick["augment"] = {"flip": 0.5, "crop_scale": [0.3, 0.8]}
    quick["training"] = quick["training"] | {"cached_views": 2}
    for name in ("first", "second"):
        with pytest.raises(Reached):
            train(plan_for(scenes, quick), tmp_path / name, cache_folder=feature_cache)
    told = [(line["view"], line["images"], line["computed"]) for line in events(tmp_path / "second", "features")]
    assert told == [("", 60, 0), ("view 1", 48, 0), ("view 2", 48, 0), ("", 16, 0)], "nothing is computed twice"
    plain, *others = (view.gather(np.arange(48))[0] for view in at_the_loop["batches"].views)
    assert len(others) == 2
    assert not np.allclose(others[0], others[1])
    assert not np.allclose(plain, others[0])
    seen = np.concatenate([batch.view.numpy() for batch in at_the_loop["batches"].epoch(0)])
    assert set(seen.tolist()) == {0, 1, 2}


def test_images_held_out_are_never_trained_on(scenes, feature_cache, quick, tmp_path, at_the_loop):
    with pytest.raises(Reached):
        train(plan_for(scenes, quick), tmp_path / "run", cache_folder=feature_cache)
    batches = at_the_loop["run"]
    learned, held = batches.learn.labels.table.images, batches.held_out.labels.table.images
    assert len(learned) + len(held) == 60
    assert not set(learned) & set(held)
    assert set(batches.val.labels.table.images).isdisjoint(learned)


def test_the_features_of_each_part_belong_to_its_images(
    finished_run, scenes, feature_cache, quick, tmp_path, at_the_loop
):
    with pytest.raises(Reached):
        train(plan_for(scenes, quick), tmp_path / "run", cache_folder=feature_cache)
    network = load(finished_run, device="cpu")
    for part in (at_the_loop["run"].learn, at_the_loop["run"].held_out, at_the_loop["run"].val):
        table = part.labels.table
        whole = FeatureBatches(part.views[:1], table, batch_size=64, seed=0)
        (batch,) = whole.in_order()
        np.testing.assert_array_equal(batch.targets.numpy(), table.targets(slice(None)))
        state = load_file(finished_run / "model.safetensors")
        scaled = (batch.inputs[0] - state["head.scales.0.mean"]) / state["head.scales.0.deviation"]
        by_hand = torch.sigmoid(scaled @ state["head.linear.weight"].T + state["head.linear.bias"])
        ours = network.scores([table.path(row) for row in range(len(table))])
        np.testing.assert_allclose(by_hand.numpy(), ours, atol=1e-3)


def single_label_folders(root: Path, count: int = 12) -> Path:
    """One folder per colour, easy to learn."""
    rng = np.random.default_rng(0)
    for channel, name in enumerate(("blue", "green", "red")):
        (root / name).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 60, (40, 40, 3), dtype=np.uint8)
            pixels[..., 2 - channel] += 190
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    return root


def test_one_label_per_image_from_class_folders(tmp_path, no_export):
    train_on, check_on = single_label_folders(tmp_path / "train"), single_label_folders(tmp_path / "val", 4)
    content = {
        "task": "single",
        "preprocess": {"size": 64},
        "loss": {"name": "cross-entropy"},
        "training": {"epochs": 6, "batch_size": 8, "metric": "top1", "cache_features": False, "workers": 0},
    }
    plan = RunPlan(str(train_on), str(check_on), recipe_from_dict(content))
    result = train(plan, tmp_path / "run", cache_folder=tmp_path / "cache")
    assert result.classes == ("blue", "green", "red")
    assert result.metrics["validation"]["top1"] > 90
    assert "top1" in events(tmp_path / "run", "epoch")[0]
    tagger = load(tmp_path / "run")
    scores = tagger.scores(sorted((check_on / "red").iterdir()))
    np.testing.assert_allclose(scores.sum(1), 1, rtol=1e-5)
    assert [tags[0].label for tags in tagger.predict(sorted((check_on / "red").iterdir()))].count("red") >= 3


def test_an_image_with_two_labels_is_refused_where_one_is_wanted(scenes, tmp_path):
    content = TINY | {"task": "single", "loss": {"name": "cross-entropy"}}
    with pytest.raises(DataError, match=r"has \d labels, but task 'single' wants exactly one"):
        train(plan_for(scenes, content), tmp_path / "run", cache_folder=tmp_path)


def test_unknown_labels_are_neither_trained_on_nor_scored(photos, tmp_path, no_export):
    table = load_table(photos / "train.csv")
    with (photos / "train.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", *table.classes])
        for row in range(len(table)):
            labels = table.targets([row])[0].tolist()
            labels[0] = -1 if row % 2 else labels[0]
            writer.writerow([table.images[row], *labels])
    again = load_table(photos / "train.csv")
    assert not again.known(slice(None)).all()
    result = train(plan_for(photos, TINY), tmp_path / "run", cache_folder=tmp_path / "cache")
    assert math.isfinite(result.metrics["held_aside"]["mAP"])


# Broken data


@pytest.mark.parametrize("start", [0, 7, 21, 33, 46, 59])
def test_one_broken_image_in_sixty_is_left_out_wherever_it_lies(
    photos, feature_cache, quick, tmp_path, at_the_loop, start
):
    (broken,) = break_images(photos, 1, start)
    with pytest.raises(Reached):
        train(plan_for(photos, quick), tmp_path / "run", cache_folder=feature_cache)
    batches = at_the_loop["run"]
    used = [*batches.learn.labels.table.images, *batches.held_out.labels.table.images]
    assert len(used) == 59
    assert f"images/{broken.name}" not in used
    with (tmp_path / "run" / "broken.csv").open(newline="") as file:
        header, (image, problem) = csv.reader(file)
    assert header == ["image", "problem"]
    assert image == str(broken)
    assert "cannot be decoded" in problem


@pytest.mark.parametrize("cached", [True, False])
def test_a_run_with_a_few_broken_images_finishes(photos, feature_cache, quick, tmp_path, no_export, cached):
    broken = {str(path) for path in break_images(photos, 2, 11)}
    quick["training"] |= {"cache_features": cached, "workers": 0, "epochs": 1}
    train(plan_for(photos, quick), tmp_path / "run", cache_folder=feature_cache)
    assert (tmp_path / "run" / "tagger.json").exists()
    with (tmp_path / "run" / "broken.csv").open(newline="") as file:
        assert {row["image"] for row in csv.DictReader(file)} == broken
    (told,) = events(tmp_path / "run", "broken")
    assert told["count"] == 2


@pytest.mark.parametrize("cached", [True, False])
def test_too_many_broken_images_stop_the_run_before_its_first_epoch(
    photos, feature_cache, quick, tmp_path, at_the_loop, cached
):
    broken = break_images(photos, 4)
    quick["training"] |= {"cache_features": cached, "workers": 0}
    with pytest.raises(DataError) as caught:
        train(plan_for(photos, quick), tmp_path / "run", cache_folder=feature_cache)
    message = str(caught.value)
    assert "4 of 60 images cannot be read, more than the allowed 5%" in message
    assert all(path.name in message for path in broken)
    # The message's own advice works at once, in the same folder.
    quick["data"]["max_broken"] = 0.2
    with pytest.raises(Reached):
        train(plan_for(photos, quick), tmp_path / "run", cache_folder=feature_cache)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("allowed", [0.05, 1.0])
def test_images_that_are_all_missing_are_a_clear_error(photos, quick, tmp_path, at_the_loop, cached, allowed):
    shutil.rmtree(photos / "images")
    quick["training"] |= {"cache_features": cached, "workers": 0}
    quick["data"]["max_broken"] = allowed
    with pytest.raises(DataError, match=r"60 of 60 images cannot be read"):
        train(plan_for(photos, quick), tmp_path / "run", cache_folder=tmp_path / "cache")


def test_images_that_vanish_during_training_are_skipped_and_named(photos, tmp_path, no_export, monkeypatch):
    real = PictureBatches.epoch

    def vanishing(self, epoch, start=0):
        self.table.path(0).unlink(missing_ok=True)
        return real(self, epoch, start)

    monkeypatch.setattr(PictureBatches, "epoch", vanishing)
    train(plan_for(photos, TINY), tmp_path / "run", cache_folder=tmp_path / "cache")
    (told,) = events(tmp_path / "run", "skipped")
    assert len(told["images"]) == 1
    assert "no such file" in told["images"][0]


def test_tables_that_cannot_be_used_are_refused_before_any_work(photos, tmp_path, quick):
    (photos / "val.csv").write_text("image,labels\nimages/val_000000.jpg,\n")
    with pytest.raises(DataError, match=r"val\.csv.*no image has any label"):
        train(plan_for(photos, quick), tmp_path / "a", cache_folder=tmp_path)
    (photos / "train.csv").write_text("image,labels\nimages/train_000000.jpg,star\n")
    with pytest.raises(DataError, match="too little to train on"):
        train(plan_for(photos, quick, val=False), tmp_path / "b", cache_folder=tmp_path)
    with pytest.raises(DataError, match="no such file"):
        train(RunPlan(str(photos / "gone.csv"), None, recipe_from_dict(quick)), tmp_path / "c", cache_folder=tmp_path)


# Choices that need each other


@pytest.mark.parametrize("training", [{"select": "best"}, {"patience": 2}])
def test_choosing_an_epoch_needs_images_to_choose_on(scenes, quick, tmp_path, training):
    quick["data"]["holdout"] = 0.0
    quick["training"] |= training
    with pytest.raises(RecipeError, match="need images to watch"):
        train(plan_for(scenes, quick, val=False), tmp_path / "run", cache_folder=tmp_path)


def test_without_images_held_out_thresholds_stay_at_a_half(scenes, feature_cache, quick, tmp_path, no_export):
    quick["data"]["holdout"] = 0.0
    quick["training"]["epochs"] = 1
    result = train(plan_for(scenes, quick, val=False), tmp_path / "run", cache_folder=feature_cache)
    assert result.metrics == {}
    assert set(read_spec(tmp_path / "run").thresholds) == {0.5}


@pytest.mark.parametrize(
    ("thresholds", "expected"), [({"aim": "fixed", "value": 0.25}, {0.25}), ({"aim": "precision", "value": 0.9}, None)]
)
def test_the_aim_of_thresholds_is_obeyed(scenes, feature_cache, quick, tmp_path, no_export, thresholds, expected):
    quick["thresholds"] = thresholds
    quick["training"]["epochs"] = 1
    train(plan_for(scenes, quick), tmp_path / "run", cache_folder=feature_cache)
    found = set(read_spec(tmp_path / "run").thresholds)
    assert found == expected if expected else len(found) > 3


def test_an_unknown_option_of_head_or_loss_is_refused_before_any_work(scenes, quick, tmp_path):
    for part, option, suggestion in (("head", "drop_out", "dropout"), ("loss", "weight", "weights")):
        content = quick | {part: {"options": {option: 1}, "name": quick.get(part, {}).get("name", "gap")}}
        with pytest.raises(RecipeError, match=f"did you mean '{suggestion}'"):
            train(plan_for(scenes, content), tmp_path / "run", cache_folder=tmp_path)


def test_a_network_without_an_onnx_form_still_becomes_a_tagger(scenes, tmp_path, monkeypatch):
    def impossible(*arguments, **options):
        raise TaggerError("the network could not be exported to ONNX (unheard of).")

    monkeypatch.setattr(finish_module, "export_network", impossible)
    train(plan_for(scenes, TINY), tmp_path / "run", cache_folder=tmp_path)
    assert not (tmp_path / "run" / "model.onnx").exists()
    assert "unheard of" in events(tmp_path / "run", "export")[0]["problem"]
    assert load(tmp_path / "run").engine == "torch"


# Folders and runs


def test_a_finished_tagger_is_never_overwritten(finished_run, scenes, quick, tmp_path):
    before = (finished_run / "tagger.json").read_bytes()
    for resume in (False, True):
        with pytest.raises(TagloomError, match="holds a finished tagger"):
            train(plan_for(scenes, quick), finished_run, resume=resume, cache_folder=tmp_path)
    assert (finished_run / "tagger.json").read_bytes() == before


@pytest.fixture
def begun(scenes, tmp_path, monkeypatch) -> Path:
    """A run that was asked to stop after its first step."""
    monkeypatch.setattr(StopRequest, "listen", lambda self: setattr(self, "signal_number", 15))
    monkeypatch.setattr(StopRequest, "leave_if_requested", lambda self: (_ for _ in ()).throw(Reached))
    monkeypatch.setattr(prepare_module, "_unreadable", lambda *arguments: [])
    hash_files = prepare_module.hash_files  # it could be stopped as well
    quiet = SimpleNamespace(leave_if_requested=lambda: None)
    monkeypatch.setattr(prepare_module, "hash_files", lambda paths, stop, *more: hash_files(paths, quiet, *more))
    with pytest.raises(Reached):
        train(plan_for(scenes, TINY), tmp_path / "begun", cache_folder=tmp_path / "cache")
    monkeypatch.undo()
    return tmp_path / "begun"


def test_a_run_that_was_started_is_not_started_again_by_mistake(begun, scenes, tmp_path):
    with pytest.raises(TagloomError, match=r"holds a run that was started.*--resume"):
        train(plan_for(scenes, TINY), begun, cache_folder=tmp_path / "cache")


def test_a_run_is_resumed_from_its_own_plan(begun, tmp_path, no_export):
    result = train(RunPlan.read(begun), begun, resume=True, cache_folder=tmp_path / "cache")
    assert set(result.metrics) == {"validation", "held_aside"}
    assert not (begun / "checkpoint").exists()


def test_a_run_is_not_resumed_with_another_recipe_or_other_labels(begun, scenes, photos, tmp_path):
    content = TINY | {"training": TINY["training"] | {"seed": 9}}
    with pytest.raises(CheckpointError, match="another recipe, other data or another seed"):
        train(plan_for(scenes, content), begun, resume=True, cache_folder=tmp_path / "cache")
    table = (photos / "train.csv").read_text().splitlines()
    (photos / "train.csv").write_text("\n".join([table[0], *reversed(table[1:])]))
    with pytest.raises(CheckpointError, match="other data"):
        train(plan_for(photos, TINY), begun, resume=True, cache_folder=tmp_path / "cache")


def test_a_run_is_named_by_its_unknown_labels_too(tmp_path):
    tables = []
    for number, mark in enumerate(("0", "-1", "1")):
        path = tmp_path / f"{number}.csv"
        path.write_text(f"image,cat,dog\na.jpg,1,{mark}\nb.jpg,0,1\n")
        tables.append(load_table(path))
    plan, held_out = RunPlan("x", None, recipe_from_dict({})), np.zeros(2, bool)
    assert len({run_identity(plan, Tables(table, held_out, None)) for table in tables}) == 3
    one, other = (run_identity(plan, Tables(tables[0], held_out, val)) for val in tables[:2])
    assert one != other


def test_a_path_that_is_no_folder_is_refused(scenes, quick, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TagloomError, match="cannot be created"):
        train(plan_for(scenes, quick), tmp_path / "file" / "run", cache_folder=tmp_path)


# Calibration


def calibrated(kind: str) -> dict[str, Any]:
    return TINY | {"calibration": {"kind": kind}, "training": TINY["training"] | {"epochs": 1}}


@pytest.mark.parametrize("kind", ["shared", "per-class"])
def test_scores_are_calibrated_on_the_images_held_out_before_thresholds_are_chosen(scenes, tmp_path, no_export, kind):
    out = tmp_path / "run"
    train(plan_for(scenes, calibrated(kind)), out, cache_folder=tmp_path)
    spec = read_spec(out)
    assert len(spec.calibration.scales) == (len(spec.classes) if kind == "per-class" else 0)
    told = spec.metrics["held_aside"]["calibration"]
    assert told["after"]["log_loss"] < told["before"]["log_loss"]
    tagger, table = load(out), load_table(scenes / "val.csv")
    found = evaluate(tagger, table)
    assert found.metrics["CF1"] == pytest.approx(spec.metrics["validation"]["CF1"], abs=0.5)
    for part in ("before", "after"):
        wanted = spec.metrics["validation"]["calibration"][part]["log_loss"]
        assert found.calibration[part]["log_loss"] == pytest.approx(wanted, rel=1e-3)
    plain = to_scores(np.stack([row for _, row in tagger.stream_logits(map(table.path, range(16)))]), "sigmoid")
    targets = table.with_classes(tagger.classes).targets(slice(None))
    assert found.metrics["mAP"] == pytest.approx(score(plain, targets)["mAP"])
    assert "calibrated" in (out / "README.md").read_text()


def test_without_images_held_out_nothing_is_calibrated(scenes, tmp_path, no_export):
    out = tmp_path / "run"
    console = Console(file=io.StringIO(), width=200)
    content = calibrated("shared") | {"data": {"holdout": 0.0}}
    train(plan_for(scenes, content), out, cache_folder=tmp_path, console=console)
    assert read_spec(out).calibration is None
    assert "scores are not calibrated" in console.file.getvalue()


@pytest.mark.parametrize(("images", "frozen"), [("all", False), ("with-labels", False), ("with-labels", True)])
def test_a_teacher_whose_only_validation_image_is_broken_is_measured_on_none(at_the_loop, tmp_path, images, frozen):
    rng = np.random.default_rng(0)
    for row in range(10):
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(tmp_path / f"{row}.png")
    (tmp_path / "9.png").write_bytes(b"no picture")
    rows = "\n".join(f"{row}.png,{'ab'[row % 2]}" for row in range(8))
    (tmp_path / "train.csv").write_text(f"image,labels\n{rows}\n")
    (tmp_path / "val.csv").write_text("image,labels\n8.png,a\n9.png,b\n")
    recipe = recipe_from_dict(
        TINY | {"data": {"holdout": 0.0, "max_broken": 1.0}, "backbone": TINY["backbone"] | {"frozen": frozen}}
    )
    places = str(tmp_path / "train.csv"), str(tmp_path / "val.csv")
    with pytest.raises(Reached):
        train(
            RunPlan(*places, recipe, classes=("b",), images=images),
            tmp_path / "run",
            device="cpu",
            cache_folder=tmp_path / "cache",
        )
    assert at_the_loop["run"].val is None
    assert at_the_loop["validate"]() == {}
