"""A run on shards and a run on the folder: the same images each epoch, the same features, and as exact a resume."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tagloom.data import load_table
from tagloom.data.images import content_hash
from tagloom.data.packed import images, packing
from tagloom.data.packed.packing import pack
from tagloom.recipe.pictures import Augment, Preprocess
from tagloom.training.features.batches import cut, epoch_order
from tagloom.training.features.picture_batches import PictureBatches

SIZE = 32
TINY = {
    "preprocess": {"size": SIZE},
    "backbone": {"name": "test_efficientnet", "weights": "none", "frozen": False},
    "head": {"name": "gap"},
    "data": {"holdout": 0.1},
    "optimiser": {"learning_rate": 0.01},
    "augment": {"flip": 0.5},
    "training": {"epochs": 2, "batch_size": 4, "select": "last", "workers": 0, "checkpoint_minutes": 0, "seed": 5},
}


@pytest.fixture(scope="module")
def shards(small_photos, tmp_path_factory) -> Path:
    """The forty small photos in ten row groups of four shards."""
    out = tmp_path_factory.mktemp("packed") / "shards"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "GROUP_IMAGES", 4)
        pack(load_table(small_photos / "train.csv"), out, shard_bytes=30_000)
    assert len(list(out.iterdir())) >= 3
    return out


@pytest.fixture
def narrow_windows(monkeypatch):
    """Windows of about three row groups, so that an epoch has several."""
    monkeypatch.setattr(images, "WINDOW_BYTES", 40_000)


def picture_batches(data: Path, workers: int = 0) -> PictureBatches:
    return PictureBatches(load_table(data), Preprocess(SIZE), Augment(flip=0.5), batch_size=6, seed=3, workers=workers)


def images_of(batches: PictureBatches, epoch: int, start: int = 0) -> list[str]:
    return [batches.table.images[row] for batch in batches.epoch(epoch, start) for row in batch.rows.tolist()]


def test_an_epoch_on_shards_has_the_images_of_the_folder_each_once(small_photos, shards, narrow_windows):
    folder, packed = picture_batches(small_photos / "train.csv"), picture_batches(shards)
    workers = picture_batches(shards, workers=2)
    for epoch in range(2):
        seen = images_of(packed, epoch)
        assert sorted(seen) == sorted(images_of(folder, epoch)) == sorted(packed.table.images)
        assert images_of(workers, epoch) == seen
    assert images_of(packed, 0) != images_of(packed, 1)


def test_the_same_picture_comes_from_shards_and_from_the_folder(small_photos, shards):
    folder, packed = picture_batches(small_photos / "train.csv"), picture_batches(shards)
    for ours, theirs in zip(packed.in_order(), folder.in_order(), strict=True):
        assert torch.equal(ours.inputs[0], theirs.inputs[0])
        assert torch.equal(ours.targets, theirs.targets)


def test_an_epoch_resumed_at_any_batch_gives_the_same_bits(shards, narrow_windows):
    whole = list(picture_batches(shards).epoch(1))
    for start in range(len(whole)):
        rest = list(picture_batches(shards, workers=2 * (start == 3)).epoch(1, start))
        assert len(rest) == len(whole) - start
        for ours, theirs in zip(rest, whole[start:], strict=True):
            assert torch.equal(ours.rows, theirs.rows)
            assert torch.equal(ours.inputs[0], theirs.inputs[0])


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_that_slice_each_batch_see_every_image_once_between_them(shards, ranks, narrow_windows):
    table = load_table(shards)
    batches = cut(epoch_order(len(table), 3, 0, table.packed), 6)
    seen = [row for batch in batches for rank in range(ranks) for row in batch[rank::ranks].tolist()]
    assert sorted(seen) == list(range(len(table)))


def test_an_epoch_reads_each_row_group_once(shards, narrow_windows, monkeypatch):
    from tagloom.data.packed import shards as reading

    noted = []
    real = reading._Kept.read

    def noting(kept, place, column, group):
        noted.append((place, group))
        return real(kept, place, column, group)

    monkeypatch.setattr(reading._Kept, "read", noting)
    monkeypatch.setattr(reading, "HELD_BYTES", 2 * images.WINDOW_BYTES)
    batches = picture_batches(shards)
    assert len(images_of(batches, 0)) == 40
    assert len(noted) == len(set(noted)) == 10


def test_training_on_shards_and_on_the_folder_has_the_same_features_and_ends_the_same(
    small_photos, shards, tmp_path, ask_server
):
    recipe = TINY | {"backbone": TINY["backbone"] | {"frozen": True}}
    for name, data in (("folder", small_photos / "train.csv"), ("shards", shards)):
        job = {"data": data, "recipe": recipe, "cache": tmp_path / "cache", "out": tmp_path / name}
        told = ask_server("train", resume=False, **job)
        assert told["error"] is None
    computed = {}
    for name in ("folder", "shards"):
        lines = (tmp_path / name / "log.jsonl").read_text().splitlines()
        found = [entry for entry in map(json.loads, lines) if entry.get("event") == "features"]
        computed[name] = sum(entry["computed"] for entry in found)
    assert computed["folder"] > 0
    assert computed["shards"] == 0  # all are in the cache: the bytes of each image are the same
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("folder", "shards")]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_a_run_on_shards_that_is_killed_ends_bit_for_bit_like_one_that_was_not(shards, tmp_path, ask_server):
    job = {"data": shards, "recipe": TINY, "cache": tmp_path / "cache"}

    def start(out: str, *, resume: bool = False, **choices) -> dict:
        return ask_server(
            "train", out=tmp_path / out, resume=resume, orders=tmp_path / f"{out}.orders", **job, **choices
        )

    assert start("whole")["error"] is None
    assert start("killed", kill_step=13)["code"] == -9
    assert start("killed", resume=True)["error"] is None
    orders = {}
    for out in ("whole", "killed"):
        found = {}
        for line in (tmp_path / f"{out}.orders").read_text().splitlines():
            epoch, step, rows = json.loads(line)
            assert found.setdefault((epoch, step), rows) == rows, "a step that was repeated saw other images"
        orders[out] = found
    assert orders["whole"] == orders["killed"]
    for epoch in range(2):
        rows = [row for (number, _), rows in orders["whole"].items() if number == epoch for row in rows]
        assert sorted(rows) == list(range(36))
    weights = [(tmp_path / out / "model.safetensors").read_bytes() for out in ("whole", "killed")]
    assert weights[0] == weights[1]


def test_packed_images_hash_like_files(small_photos, shards):
    folder, packed = load_table(small_photos / "train.csv"), load_table(shards)
    rows = np.arange(len(folder))
    assert [content_hash(packed.image(row)) for row in rows] == [content_hash(folder.image(row)) for row in rows]
