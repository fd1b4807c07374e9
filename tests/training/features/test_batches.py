"""What a step sees follows from seed and epoch alone: not from workers, nor from where a run was resumed."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.sparse import csr_array

from tagloom.data.images import open_image
from tagloom.data.table import LabelTable
from tagloom.data.transforms import prepare
from tagloom.recipe.pictures import Augment, Preprocess
from tagloom.training.features.batches import epoch_order
from tagloom.training.features.cache import CachedFeatures, FeatureCache
from tagloom.training.features.feature_batches import FeatureBatches
from tagloom.training.features.picture_batches import PictureBatches

COUNT = 23
PREPROCESS = Preprocess(size=32)
EVERYTHING = Augment(flip=0.5, randaugment_ops=2, cutout=0.3, crop_scale=(0.4, 1.0))


def make_table(folder: Path, unlisted: str = "negative", exceptions: bool = False) -> LabelTable:
    """Labels that tell the rows apart: class c belongs to row r where bit c of r is set."""
    positive = (np.arange(COUNT)[:, None] >> np.arange(5)) & 1 == 1
    other = ~positive & (np.arange(5) == 4)
    return LabelTable(
        folder,
        [f"{row}.png" for row in range(COUNT)],
        tuple("abcde"),
        csr_array(positive),
        exceptions=csr_array(other) if exceptions else None,
        unlisted=unlisted,
    )


def cached(folder: Path, offset: float = 0.0) -> CachedFeatures:
    """Features whose value is the row's number, plus an offset that tells views apart."""
    cache = FeatureCache(folder)
    values = np.arange(COUNT, dtype=np.float32)[:, None] + offset
    cache.add([str(row) for row in range(COUNT)], [np.repeat(values, 3, axis=1)])
    return cache.view([str(row) for row in range(COUNT)])


@pytest.fixture
def feature_batches(tmp_path):
    def make(**options):
        views = [cached(tmp_path / "plain"), cached(tmp_path / "mirrored", 0.5)]
        choices = {"batch_size": 4, "seed": 3, "chances": (0.5, 0.5)} | options
        return FeatureBatches(views, choices.pop("table", make_table(tmp_path)), **choices)

    return make


@pytest.fixture
def picture_folder(tmp_path) -> Path:
    rng = np.random.default_rng(0)
    for row in range(COUNT):
        Image.fromarray(rng.integers(0, 256, (30, 40, 3), dtype=np.uint8)).save(tmp_path / f"{row}.png")
    return tmp_path


def image_batches(folder: Path, workers: int = 0, augmentation: Augment = EVERYTHING, **options) -> PictureBatches:
    choices = {"batch_size": 5, "seed": 3} | options
    return PictureBatches(make_table(folder), PREPROCESS, augmentation, workers=workers, **choices)


def assert_same(ours, theirs) -> None:
    ours, theirs = list(ours), list(theirs)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        for left, right in zip(
            (*one.inputs, one.targets, one.rows), (*other.inputs, other.targets, other.rows), strict=True
        ):
            assert torch.equal(left, right)


def test_an_order_is_a_shuffle_that_seed_and_epoch_decide():
    order = epoch_order(100, seed=1, epoch=2)
    assert sorted(order) == list(range(100))
    np.testing.assert_array_equal(order, epoch_order(100, seed=1, epoch=2))
    assert (order != epoch_order(100, seed=1, epoch=3)).any()
    assert (order != epoch_order(100, seed=2, epoch=2)).any()


def test_an_epoch_shows_every_image_once_with_its_own_features_and_labels(feature_batches):
    batches = list(feature_batches().epoch(0))
    rows = torch.cat([batch.rows for batch in batches])
    assert sorted(rows.tolist()) == list(range(COUNT))
    assert [len(batch.rows) for batch in batches] == [4, 4, 4, 4, 4, 3]
    for batch in batches:
        assert torch.equal(batch.inputs[0].floor()[:, 0].long(), batch.rows)
        assert torch.equal(batch.targets.long(), (batch.rows[:, None] >> torch.arange(5)) & 1)


def test_the_order_of_features_depends_on_seed_and_epoch_only(feature_batches):
    assert_same(feature_batches().epoch(4), feature_batches().epoch(4))
    first = torch.cat([batch.rows for batch in feature_batches().epoch(4)])
    assert not torch.equal(first, torch.cat([batch.rows for batch in feature_batches().epoch(5)]))
    assert not torch.equal(first, torch.cat([batch.rows for batch in feature_batches(seed=4).epoch(4)]))


@pytest.mark.parametrize("start", [0, 1, 3, 5, 6, 9])
def test_an_epoch_taken_up_in_the_middle_is_the_tail_of_the_whole(feature_batches, picture_folder, start):
    whole = list(feature_batches().epoch(2))
    assert_same(feature_batches().epoch(2, start), whole[start:])
    images = image_batches(picture_folder)
    assert_same(images.epoch(2, start), list(images.epoch(2))[start:])


def test_views_are_mixed_by_chance_and_evaluation_sees_the_plain_one(feature_batches):
    def share(batches):
        return float(torch.cat([batch.inputs[0][:, 0] % 1 > 0.2 for batch in batches]).float().mean())

    mirrored = [share(feature_batches().epoch(epoch)) for epoch in range(30)]
    assert 0.4 < np.mean(mirrored) < 0.6
    assert share(feature_batches(chances=(0.0, 1.0)).epoch(0)) == 1
    assert share(feature_batches(chances=(1.0, 0.0)).epoch(0)) == 0
    assert share(feature_batches(chances=(0.0, 1.0)).in_order()) == 0


def test_another_epoch_mirrors_other_images(feature_batches):
    def mirrored(epoch):
        return {
            int(row)
            for batch in feature_batches().epoch(epoch)
            for row, value in zip(batch.rows, batch.inputs[0][:, 0], strict=True)
            if value % 1 > 0.2
        }

    assert mirrored(0) != mirrored(1)


def test_evaluation_is_in_the_order_of_the_table(feature_batches, picture_folder):
    for batches in (feature_batches(), image_batches(picture_folder)):
        rows = torch.cat([batch.rows for batch in batches.in_order()])
        assert rows.tolist() == list(range(COUNT))


def test_lengths_count_batches(feature_batches, picture_folder):
    assert len(feature_batches()) == len(list(feature_batches().epoch(0))) == 6
    assert len(image_batches(picture_folder)) == len(list(image_batches(picture_folder).epoch(0))) == 5


@pytest.mark.parametrize("workers", [1, 2])
def test_the_number_of_workers_changes_no_pixel(picture_folder, workers):
    alone, helped = image_batches(picture_folder), image_batches(picture_folder, workers)
    assert_same(helped.epoch(1), alone.epoch(1))
    assert_same(helped.in_order(), alone.in_order())


def test_augmentation_differs_between_epochs_and_not_between_batch_sizes(picture_folder):
    def pixels(batches, epoch):
        return {
            int(row): image
            for batch in batches.epoch(epoch)
            for row, image in zip(batch.rows, batch.inputs[0], strict=True)
        }

    one, two = image_batches(picture_folder), image_batches(picture_folder, batch_size=7)
    first, second = pixels(one, 0), pixels(two, 0)
    assert all(torch.equal(first[row], second[row]) for row in range(COUNT))
    later = pixels(one, 1)
    assert not any(torch.equal(first[row], later[row]) for row in range(COUNT))


def test_evaluation_pictures_are_those_of_prediction(picture_folder):
    (batch,) = image_batches(picture_folder, batch_size=64).in_order()
    wanted = np.stack([prepare(open_image(picture_folder / f"{row}.png"), PREPROCESS) for row in range(COUNT)])
    assert batch.inputs[0].dtype == torch.uint8
    np.testing.assert_array_equal(batch.inputs[0].numpy(), wanted)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_unreadable_image_is_left_out_and_noted_and_not_replaced(picture_folder, workers):
    (picture_folder / "3.png").write_bytes(b"no picture")
    (picture_folder / "8.png").unlink()
    batches = image_batches(picture_folder, workers)
    rows = torch.cat([batch.rows for batch in batches.epoch(0)])
    assert sorted(rows.tolist()) == [row for row in range(COUNT) if row not in (3, 8)]
    assert set(batches.skipped) == {3, 8}
    assert "8.png: no such file" in batches.skipped[8]
    whole = image_batches(Path(shutil.copytree(picture_folder, picture_folder / "copy")))
    for batch in whole.epoch(0):
        assert len(batch.rows) == len(batch.inputs[0]) == len(batch.targets)
        assert torch.equal(batch.targets.long(), (batch.rows[:, None] >> torch.arange(5)) & 1)


def test_a_batch_of_nothing_but_unreadable_images_is_empty(picture_folder):
    for row in range(COUNT):
        (picture_folder / f"{row}.png").unlink()
    for batch in image_batches(picture_folder).epoch(0):
        assert len(batch.rows) == len(batch.inputs[0]) == len(batch.targets) == 0


@pytest.mark.parametrize(("unlisted", "exceptions"), [("negative", True), ("unknown", True), ("unknown", False)])
def test_unknown_labels_reach_the_batch_as_unknown(feature_batches, tmp_path, unlisted, exceptions):
    table = make_table(tmp_path, unlisted, exceptions)
    for batch in feature_batches(table=table).epoch(0):
        assert batch.known.dtype == torch.bool
        np.testing.assert_array_equal(batch.known.numpy(), table.known(batch.rows.numpy()))
        assert not batch.known.all()


def test_a_table_without_unknowns_needs_no_mask(feature_batches):
    assert all(batch.known is None for batch in feature_batches().epoch(0))


def test_repeated_pictures_stand_side_by_side_and_each_is_augmented_again(picture_folder):
    batches = image_batches(picture_folder, augmentation=dataclasses.replace(EVERYTHING, repeats=2), batch_size=COUNT)
    (batch,) = batches.epoch(0)
    rows = batch.rows.tolist()
    assert len(rows) == COUNT, "an epoch has as many steps as without repeats"
    pairs = list(zip(rows[::2], rows[1::2], strict=False))
    assert all(first == second for first, second in pairs)
    assert len(set(rows)) == -(-COUNT // 2)
    (pixels,) = batch.inputs
    assert any(not torch.equal(pixels[2 * pair], pixels[2 * pair + 1]) for pair in range(len(pairs)))
    assert torch.equal(batch.targets, batches.labels.batch((), batch.rows.numpy()).targets)


def test_some_images_are_chosen_with_their_features_labels_and_pictures(feature_batches, picture_folder):
    rows = np.array([20, 3, 11])
    for whole in (feature_batches(), image_batches(picture_folder)):
        every = {int(row): batch.inputs[0][place] for batch in whole.in_order() for place, row in enumerate(batch.rows)}
        (batch,) = whole.select(rows).in_order()
        for place, row in enumerate(rows.tolist()):
            assert torch.equal(batch.inputs[0][place], every[row])
        assert torch.equal(batch.targets.long(), (torch.from_numpy(rows)[:, None] >> torch.arange(5)) & 1)


def test_maps_come_channels_last_so_that_their_tokens_need_no_copy(tmp_path):
    maps = np.random.default_rng(0).normal(size=(COUNT, 300, 6, 5)).astype(np.float16)
    cache = FeatureCache(tmp_path)
    cache.add([str(row) for row in range(COUNT)], [maps])
    batches = FeatureBatches(
        [cache.view([str(row) for row in range(COUNT)])], make_table(tmp_path), batch_size=4, seed=0
    )
    for batch in batches.epoch(0):
        (found,) = batch.inputs
        assert found.dtype == torch.float32
        assert found.flatten(2).transpose(1, 2).is_contiguous()
        np.testing.assert_array_equal(found.numpy(), maps[batch.rows.numpy()].astype(np.float32))


def test_what_goes_wrong_while_reading_ahead_is_raised(feature_batches, monkeypatch):
    batches = feature_batches()

    def fails(rows):
        raise OSError("the disk is gone")

    monkeypatch.setattr(batches.views[0], "gather", fails)
    with pytest.raises(OSError, match="the disk is gone"):
        next(batches.in_order())
