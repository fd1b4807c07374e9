"""Every image goes through the frozen backbone once, and never again unless something that matters has changed."""

import dataclasses
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tagloom.data.images import open_image
from tagloom.data.transforms import prepare
from tagloom.errors import DataError, TaggerError
from tagloom.models.network import TaggerNetwork, build_network
from tagloom.recipe.pictures import Augment, Preprocess
from tagloom.training.features import extract
from tagloom.training.features.extract import extract_features, extractor_key
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
    extract._extractor(
        network, PREPROCESS, root / "extractors" / f"{extractor_key(network, PREPROCESS, PLAIN)}.onnx", CPU
    )
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
    monkeypatch.setattr(extract, "_extractor", lambda *arguments: pytest.fail("the backbone was asked again"))
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
    monkeypatch.setattr(extract, "_extractor", lambda *arguments: pytest.fail("the backbone was asked"))

    def refuse(errors):
        if errors:
            raise DataError("too many")

    with pytest.raises(DataError, match="too many"):
        run(network, paths, root, check=refuse)


def test_a_stop_keeps_what_was_computed(network, paths, root, monkeypatch):
    monkeypatch.setattr(extract, "CORE_IMAGES", 4)
    stop = StopRequest()

    def progress(done, total):
        if done >= 8:
            stop.signal_number = signal.SIGTERM

    with pytest.raises(Interrupted):
        run(network, paths, root, stop=stop, progress=progress)
    assert run(network, paths, root).computed == 4


def test_shards_are_written_along_the_way(network, paths, root, monkeypatch):
    monkeypatch.setattr(extract, "CORE_IMAGES", 2)
    monkeypatch.setattr(extract, "SHARD_IMAGES", 4)
    run(network, paths, root)
    assert len(list((root / "features").rglob("*.keys"))) == 3


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
    assert len(list((root / "extractors").iterdir())) == 1


def test_a_damaged_exported_network_is_made_again(network, paths, root):
    (exported,) = (root / "extractors").iterdir()
    exported.write_bytes(b"damaged")
    found = run(network, paths[:2], root)
    assert found.computed == 2
    assert exported.stat().st_size > 1000


def test_a_network_without_an_onnx_form_runs_in_torch(network, paths, tmp_path, monkeypatch):
    def impossible(*arguments, **options):
        raise TaggerError("the network could not be exported to ONNX.")

    monkeypatch.setattr(extract, "export_onnx", impossible)
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
