"""Every image goes through the frozen backbone once, and never again unless something that matters has changed."""

import dataclasses
import os
import shutil
import signal
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tagloom.cache_folder import is_intact, read_meta
from tagloom.data.images import open_image
from tagloom.data.reading import Computed
from tagloom.data.transforms import prepare
from tagloom.errors import DataError, TaggerError
from tagloom.models.network import TaggerNetwork, build_network
from tagloom.recipe.pictures import Augment, Preprocess
from tagloom.training.features import exported as exported_module
from tagloom.training.features import fill
from tagloom.training.features.cache import FeatureCache
from tagloom.training.features.extract import extract_features, hash_files
from tagloom.training.features.fill import extractor_key
from tagloom.training.features.shard import read_shard
from tagloom.training.features.views import MIRRORED, PLAIN, View
from tagloom.training.signals import Interrupted, StopRequest

PREPROCESS = Preprocess(size=32)
CPU = torch.device("cpu")


def build(backbone: str = "test_efficientnet", seed: int = 0) -> TaggerNetwork:
    torch.manual_seed(seed)
    return build_network(
        backbone=backbone, weights="none", head="gap", head_options={}, classes=3, size=32, frozen=True
    ).eval()


@pytest.fixture(scope="module")
def network() -> TaggerNetwork:
    return build()


@pytest.fixture(scope="module")
def exported(tmp_path_factory, network) -> Path:
    """A cache root that holds the exported network and no features: exporting takes seconds."""
    root = tmp_path_factory.mktemp("exported")
    fill.make_extractor(network, PREPROCESS, root / "extractors", {}, CPU)
    return root


@pytest.fixture
def root(tmp_path, exported) -> Path:
    return shutil.copytree(exported, tmp_path / "cache")


@pytest.fixture
def paths(tmp_path, scenes) -> list[Path]:
    originals = sorted((scenes / "images").glob("train_*.jpg"))[:12]
    return [Path(shutil.copy(path, tmp_path)) for path in originals]


def run(network, paths, root, **options):
    choices = {"cache_folder": root, "device": CPU, "stop": StopRequest()} | options
    return extract_features(network, paths, choices.pop("preprocess", PREPROCESS), **choices)


def by_torch(network: TaggerNetwork, paths: list[Path], flip: bool = False) -> np.ndarray:
    pixels = np.stack([prepare(open_image(path), PREPROCESS) for path in paths])
    pixels = np.ascontiguousarray(pixels[:, :, ::-1]) if flip else pixels
    with torch.no_grad():
        return network.summarise(torch.from_numpy(pixels))[0].numpy()


@pytest.mark.parametrize("flip", [False, True])
def test_features_are_what_torch_computes(network, paths, root, flip):
    found = run(network, paths, root, view=MIRRORED if flip else PLAIN)
    np.testing.assert_array_equal(found.rows, np.arange(12))
    gathered = found.features.gather(np.arange(12))[0]
    np.testing.assert_allclose(gathered, by_torch(network, paths, flip), rtol=1e-2, atol=1e-5)
    assert found.computed == 12


def test_a_random_view_is_the_same_whatever_else_is_extracted(network, paths, tmp_path):
    view = View(Augment(flip=0.5, crop_scale=(0.3, 0.7)), number=4)
    together = run(network, paths, tmp_path / "all", view=view).features.gather(np.arange(12))[0]
    alone = run(network, paths[7:8], tmp_path / "one", view=view).features.gather(np.arange(1))[0]
    np.testing.assert_allclose(together[7:8], alone, rtol=1e-2, atol=1e-5)
    assert not np.allclose(together, by_torch(network, paths), rtol=1e-2, atol=1e-5)


def test_a_second_run_computes_nothing(network, paths, root, monkeypatch):
    first = run(network, paths, root)
    monkeypatch.setattr(fill, "make_extractor", lambda *arguments: pytest.fail("the backbone was asked again"))
    second = run(network, paths[::-1], root)
    assert second.computed == 0
    np.testing.assert_array_equal(
        second.features.gather(np.arange(12))[0], first.features.gather(np.arange(12))[0][::-1]
    )


def test_only_what_is_new_is_computed(network, paths, root):
    assert run(network, paths[:5], root).computed == 5
    assert run(network, paths, root).computed == 7


def test_a_file_that_moved_is_known_by_its_content(network, paths, root):
    run(network, paths, root)
    moved = [path.rename(path.with_name(f"moved-{path.name}")) for path in paths]
    assert run(network, moved, root).computed == 0


def test_a_changed_image_is_computed_again(network, paths, root):
    before = run(network, paths, root).features.gather(np.array([0]))[0]
    shutil.copy(paths[1], paths[0])
    paths[0].write_bytes(paths[0].read_bytes() + b"\0")  # another content, the same picture as the second one
    found = run(network, paths, root)
    assert found.computed == 1
    after = found.features.gather(np.array([0, 1]))[0]
    assert not np.allclose(after[0], before)
    np.testing.assert_allclose(after[0], after[1], rtol=1e-4, atol=1e-5)


def test_equal_files_share_one_row(network, paths, root):
    shutil.copy(paths[0], paths[5])
    found = run(network, paths, root)
    assert found.computed == 11
    rows = found.features.gather(np.array([0, 5]))[0]
    np.testing.assert_array_equal(rows[0], rows[1])
    np.testing.assert_array_equal(found.rows, np.arange(12))


def test_unreadable_images_are_left_out_and_named_each_by_its_own_path(network, paths, root):
    paths[2].write_bytes(b"no picture")
    shutil.copy(paths[2], paths[7])
    paths[4].unlink()
    seen = []
    found = run(network, paths, root, check=lambda errors: seen.append([row for row, _ in errors]))
    assert [(row, error.path, error.reason) for row, error in found.broken] == [
        (2, str(paths[2]), "format"),
        (4, str(paths[4]), "missing"),
        (7, str(paths[7]), "format"),
    ]
    assert seen == [[4], [2, 4, 7]], "missing files are told before any work"
    assert found.computed == 9
    good = [row for row in range(12) if row not in (2, 4, 7)]
    np.testing.assert_array_equal(found.rows, good)
    gathered = found.features.gather(np.arange(9))[0]
    np.testing.assert_allclose(gathered, by_torch(network, [paths[row] for row in good]), rtol=1e-3, atol=1e-3)
    assert run(network, paths, root).computed == 0


def test_a_check_that_refuses_comes_before_any_work(network, paths, root, monkeypatch):
    paths[0].unlink()
    monkeypatch.setattr(fill, "make_extractor", lambda *arguments: pytest.fail("the backbone was asked"))

    def refuse(errors):
        if errors:
            raise DataError("too many")

    with pytest.raises(DataError, match="too many"):
        run(network, paths, root, check=refuse)


def test_a_stop_keeps_what_was_computed(network, paths, root, monkeypatch):
    stop = StopRequest()

    def progress(done, total):
        if done >= 8:
            stop.signal_number = signal.SIGTERM

    with pytest.raises(Interrupted):
        run(network, paths, root, stop=stop, progress=progress)
    assert run(network, paths, root).computed == 4


def test_shards_are_written_along_the_way(network, paths, root, monkeypatch):
    monkeypatch.setattr(fill, "SHARD_IMAGES", 4)
    run(network, paths, root)
    assert len(list((root / "features").rglob("*.safetensors"))) == 3


def test_a_shard_is_written_when_it_takes_enough_memory(network, paths, root, monkeypatch):
    monkeypatch.setattr(fill, "SHARD_BYTES", 5 * 256 * 4)  # five images of 256 float32 values
    run(network, paths, root)
    shards = [read_shard(path) for path in (root / "features").rglob("*.safetensors")]
    assert sorted(len(shard.keys) for shard in shards) == [2, 5, 5]


def test_maps_are_held_in_half_precision_and_a_shard_at_a_time(network, tmp_path, monkeypatch):
    """At 448 pixels 1,024 maps of EfficientNet-Lite0 took 2.4 GiB: they were held in float32 and then copied."""
    images = 320
    maps = np.random.default_rng(0).random((8, 1280, 14, 14), np.float32)

    def summaries(job, run, todo, *others):
        for first in range(0, images, 8):
            yield Computed(list(range(first, first + 8)), [maps + first], [])

    monkeypatch.setattr(fill.ExtractionJob, "_summaries", summaries)
    monkeypatch.setattr(fill, "SHARD_BYTES", 32 << 20)
    keys = [f"{number:032x}" for number in range(images)]
    cache = FeatureCache(tmp_path)
    tracemalloc.start()
    fill.ExtractionJob(network, PREPROCESS, tmp_path, CPU).fill(cache, print, keys, {}, StopRequest())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < (32 + 4 * 8) << 20, "a shard, and a few batches of 8 MiB; 306 MiB before"
    assert cache.missing(keys) == []
    last = cache.view(keys[-8:]).gather(np.arange(8))[0]
    np.testing.assert_array_equal(last, (maps + images - 8).astype(np.float16))


def test_the_extractor_is_named_by_all_that_its_output_depends_on(network):
    plain = extractor_key(network, PREPROCESS, PLAIN)
    assert extractor_key(build(), PREPROCESS, PLAIN) == plain
    changes = {
        "flip": extractor_key(network, PREPROCESS, MIRRORED),
        "view": extractor_key(network, PREPROCESS, View(Augment(crop_scale=(0.5, 1.0)), 1)),
        "number": extractor_key(network, PREPROCESS, View(Augment(crop_scale=(0.5, 1.0)), 2)),
        "size": extractor_key(network, dataclasses.replace(PREPROCESS, size=40), PLAIN),
        "fit": extractor_key(network, dataclasses.replace(PREPROCESS, fit="crop"), PLAIN),
        "interpolation": extractor_key(network, dataclasses.replace(PREPROCESS, interpolation="bilinear"), PLAIN),
        "weights": extractor_key(build(seed=1), PREPROCESS, PLAIN),
        "backbone": extractor_key(build("test_resnet"), PREPROCESS, PLAIN),
    }
    assert len({plain, *changes.values()}) == 1 + len(changes), changes


@pytest.mark.parametrize("tensor", ["net.bn1.running_mean", "net.conv_stem.weight", "deviation"])
def test_one_changed_number_anywhere_gives_another_name(tensor):
    network = build()
    before = extractor_key(network, PREPROCESS, PLAIN)
    with torch.no_grad():
        value = network.backbone.state_dict()[tensor]
        value[(0,) * value.ndim] += 1e-3
    assert extractor_key(network, PREPROCESS, PLAIN) != before


def test_the_head_has_no_say_in_the_name(network):
    other = build()
    nn.init.normal_(other.head.linear.weight)
    assert extractor_key(other, PREPROCESS, PLAIN) == extractor_key(network, PREPROCESS, PLAIN)


def test_both_views_share_one_exported_network(network, paths, root):
    run(network, paths[:2], root)
    run(network, paths[:2], root, view=MIRRORED)
    assert len(list((root / "extractors").glob("*.onnx"))) == 1


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_exported_network_is_made_again(network, paths, root, damage):
    (exported,) = (root / "extractors").glob("*.onnx")
    content = bytearray(exported.read_bytes())
    if damage == "cut":
        del content[100:]
    else:
        content[-500] ^= 0x40  # a weight: ONNX Runtime loads it, and computes something else
    exported.write_bytes(content)
    notes = []
    found = run(network, paths[:2], root, note=notes.append)
    assert found.computed == 2
    assert len(notes) == 1
    assert "is damaged and was dropped" in notes[0]
    (again,) = (root / "extractors").glob("*.onnx")
    assert is_intact(again)
    np.testing.assert_allclose(
        found.features.gather(np.arange(2))[0], by_torch(network, paths[:2]), rtol=1e-2, atol=1e-5
    )


def test_a_network_without_an_onnx_form_runs_in_torch(network, paths, tmp_path, monkeypatch):
    def impossible(*arguments, **options):
        raise TaggerError("the network could not be exported to ONNX.")

    monkeypatch.setattr(exported_module, "export_onnx", impossible)
    found = run(network, paths[:3], tmp_path / "other")
    gathered = found.features.gather(np.arange(3))[0]
    np.testing.assert_allclose(gathered, by_torch(network, paths[:3]), rtol=1e-3, atol=1e-3)


def test_a_pipe_among_the_images_is_left_out_and_training_continues(network, paths, root, tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    found = run(network, [*paths, tmp_path / "pipe.jpg", Path("/dev/zero")], root)
    assert found.rows.tolist() == list(range(12))
    assert [(row, error.reason) for row, error in found.broken] == [(12, "format"), (13, "format")]


def test_a_request_to_stop_is_heard_while_files_are_looked_up(network, paths, root):
    stop = StopRequest()
    seen = []

    def reading(done, total):
        seen.append(done)
        stop.signal_number = signal.SIGTERM

    with pytest.raises(Interrupted):
        run(network, paths, root, stop=stop, reading=reading)
    assert seen == [1]


@pytest.mark.parametrize("damage", ["zeroed", "cut", "gone"])
def test_a_damaged_shard_is_noted_and_its_images_are_extracted_again(network, paths, root, monkeypatch, damage):
    monkeypatch.setattr(fill, "SHARD_IMAGES", 4)
    before = run(network, paths, root).features.gather(np.arange(12))[0]
    shard = min((root / "features").rglob("*.safetensors"))
    content = shard.read_bytes()
    if damage == "gone":
        shard.unlink()
    else:
        shard.write_bytes(content[:-3000] + bytes(3000 if damage == "zeroed" else 0))
    notes = []
    found = run(network, paths, root, note=notes.append)
    assert found.computed == 4
    np.testing.assert_allclose(found.features.gather(np.arange(12))[0], before, rtol=1e-5, atol=1e-6)
    assert len(notes) == (damage != "gone")
    assert all("a damaged shard was dropped" in note for note in notes)
    assert run(network, paths, root, note=pytest.fail).computed == 0


def test_an_extraction_survives_that_its_cache_is_cleared(network, paths, root, monkeypatch):
    monkeypatch.setattr(fill, "SHARD_IMAGES", 4)
    run(network, paths[:4], root)

    def clear(done, total):
        shutil.rmtree(root / "features", ignore_errors=True)

    found = run(network, paths, root, progress=clear)
    shutil.rmtree(root)
    gathered = found.features.gather(np.arange(12))[0]
    np.testing.assert_allclose(gathered, by_torch(network, paths), rtol=1e-2, atol=1e-5)


def test_a_cache_says_what_it_belongs_to(network, paths, root):
    run(network, paths[:2], root, view=MIRRORED)
    (meta,) = (root / "features").rglob("meta.json")
    about = {"backbone": "test_efficientnet", "size": 32, "summary": ["pooled"], "view": "mirrored"}
    assert read_meta(meta) == about


def test_few_of_many_files_wait_to_be_hashed(tmp_path):
    (tmp_path / "a.png").write_bytes(b"a file")
    taken: list[int] = []

    class Many(list):
        def __iter__(self):
            return (taken.append(number) or path for number, path in enumerate(super().__iter__()))

        def __getitem__(self, rows):
            return Many(super().__getitem__(rows))

    stop = StopRequest()
    stop.signal_number = signal.SIGTERM  # asked at the first result
    with pytest.raises(Interrupted):
        hash_files(Many([tmp_path / "a.png"] * 20_000), stop)
    assert len(taken) <= 5000
