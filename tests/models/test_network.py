"""A tagger's network: pictures to logits, saved and rebuilt without a change."""

import dataclasses
import stat
import time

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from tagloom.errors import RecipeError, TaggerError
from tagloom.models import weights as weights_module
from tagloom.models.network import (
    Extractor,
    TaggerNetwork,
    build_network,
    count_parameters,
    load_network,
    pick_device,
    save_weights,
)
from tagloom.models.weights import check_fits, tensor_shapes
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.spec import WEIGHTS_FILE, TaggerSpec

SIZE = 32
SPEC = TaggerSpec(classes=("a", "b", "c"), preprocess=Preprocess(size=SIZE), backbone="test_efficientnet", head="gap")


def build(frozen: bool = True, **changes: object) -> TaggerNetwork:
    choices = {"backbone": "test_efficientnet", "weights": "none", "head": "gap", "head_options": {}, "classes": 3}
    network = build_network(**(choices | changes), size=SIZE, frozen=frozen)  # type: ignore[arg-type]
    nn.init.normal_(network.head.linear.weight)
    return network


def pictures() -> torch.Tensor:
    return torch.randint(0, 256, (2, SIZE, SIZE, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_pictures_become_one_logit_per_label():
    assert build()(pictures()).shape == (2, 3)


def test_a_summary_and_the_rest_make_the_whole():
    network = build().eval()
    with torch.no_grad():
        summary = network.summarise(pictures())
        torch.testing.assert_close(network.head.classify(*summary), network(pictures()))
        torch.testing.assert_close(Extractor(network)(pictures()), summary)


def test_height_and_width_are_not_confused():
    network = build().eval()
    tall = torch.zeros(1, SIZE, SIZE, 3, dtype=torch.uint8)
    tall[:, : SIZE // 2] = 255
    seen = []
    network.backbone.net.conv_stem.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    network(tall)
    assert (seen[0][0, :, 0, :] > seen[0][0, :, -1, :]).all(), "the upper half is the bright one"


def test_weights_come_back_exactly(tmp_path):
    network = build().eval()
    save_weights(network, tmp_path)
    copy = load_network(tmp_path, SPEC)
    assert not copy.training
    for name, value in network.state_dict().items():
        torch.testing.assert_close(copy.state_dict()[name], value, rtol=0, atol=0)
    with torch.no_grad():
        torch.testing.assert_close(copy(pictures()), network(pictures()), rtol=0, atol=0)


def test_saving_leaves_one_file_that_others_may_read(tmp_path):
    save_weights(build(), tmp_path)
    (path,) = tmp_path.iterdir()
    assert path.name == WEIGHTS_FILE
    other = tmp_path / "other"
    other.write_text("")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_missing_weights_are_named(tmp_path):
    with pytest.raises(TaggerError, match=r"has no model\.safetensors"):
        load_network(tmp_path, SPEC)


@pytest.mark.parametrize(
    "change",
    [
        {"classes": ("a", "b")},
        {"backbone": "test_resnet"},
        {"backbone": "no_such_network"},
        {"head": "no_such_head"},
        {"head_options": {"no_such_option": 1}},
        {"head_options": {"dropout": "much"}},
    ],
)
def test_weights_that_do_not_fit_the_description_are_refused(tmp_path, change):
    save_weights(build(), tmp_path)
    with pytest.raises(TaggerError, match="does not fit the tagger"):
        load_network(tmp_path, dataclasses.replace(SPEC, **change))


def test_damaged_weights_are_refused(tmp_path):
    save_weights(build(), tmp_path)
    path = tmp_path / WEIGHTS_FILE
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(TaggerError, match="does not fit the tagger"):
        load_network(tmp_path, SPEC)


def test_a_tensor_too_many_is_refused(tmp_path):
    save_weights(build(), tmp_path)
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    save_file({**tensors, "extra": torch.zeros(1)}, tmp_path / WEIGHTS_FILE)
    with pytest.raises(TaggerError, match="does not fit the tagger"):
        load_network(tmp_path, SPEC)


def test_parameters_are_counted_all_and_trained():
    total, trained = count_parameters(build(frozen=True))
    assert trained == 256 * 3 + 3
    assert total > trained
    assert count_parameters(build(frozen=False)) == (total, total)


def test_an_unknown_head_is_refused_with_the_list():
    with pytest.raises(RecipeError, match="did you mean 'gap'"):
        build(head="gpa")


def test_devices_are_checked_before_anything_is_computed():
    assert pick_device("cpu").type == "cpu"
    assert pick_device().type in ("cpu", "cuda", "mps")
    with pytest.raises(TaggerError, match="device 'nonsense' cannot be used here"):
        pick_device("nonsense")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(TaggerError, match=r"device 'cuda' cannot be used here.*Use auto or cpu"):
        pick_device("cuda")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"backbone": "eva02_enormous_patch14_clip_224"}, "the file has no tensor"),  # 4.4 billion parameters
        ({"head": "ml-decoder", "head_options": {"width": 2**40}}, "."),
        ({"head": "ml-decoder", "head_options": {"decoder": {"layers": 10**9}}}, "decoder.layers is 1000000000"),
        ({"head": "tf", "head_options": {"decoder": {"encoder_layers": 10**9}}}, "encoder_layers is 1000000000"),
        ({"head": "hsq", "head_options": {"readout": {"layer_widths": [8] * 1000}}}, "it must be a list of 1 to 256"),
        ({"head": "hsq", "head_options": {"readout": {"shared_experts": 10**9}}}, "the file has no tensor"),
    ],
)
def test_a_description_too_large_for_the_machine_is_refused_before_it_is_built(tmp_path, monkeypatch, change, message):
    save_weights(build(), tmp_path)
    largest = []
    empty = torch.empty
    monkeypatch.setattr(
        torch, "empty", lambda *sizes, **options: largest.append(empty(*sizes, **options)) or largest[-1]
    )
    started = time.monotonic()
    with pytest.raises(TaggerError, match=f"does not fit the tagger that tagger.json describes: .*{message}"):
        load_network(tmp_path, dataclasses.replace(SPEC, **change))
    assert time.monotonic() - started < 20
    assert all(value.is_meta or value.numel() < 2**22 for value in largest)


def test_what_a_network_computes_for_itself_has_a_limit(monkeypatch):
    monkeypatch.setattr(weights_module, "MAX_COMPUTED_VALUES", 100)
    network = nn.Module()
    network.register_buffer("table", torch.empty(11, 10, device="meta"), persistent=False)
    with pytest.raises(TaggerError, match="needs 110 values that are in no file; the most is 100"):
        check_fits(network, {})
    network.register_buffer("table", torch.empty(10, 10, device="meta"), persistent=False)
    check_fits(network, {})


def test_shapes_are_read_from_the_header_alone(tmp_path):
    network = build()
    save_weights(network, tmp_path)
    shapes = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    assert tensor_shapes(tmp_path / WEIGHTS_FILE) == shapes
