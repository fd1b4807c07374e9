"""Any timm model gives (B, C, h, w) from plain pixels, and a frozen one stays as it is."""

import os
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import save_file

from tagloom.errors import TaggerError
from tagloom.models.backbone import Backbone, create_backbone
from tagloom.models.heads import create_head
from tagloom.models.network import TaggerNetwork, load_network, save_weights
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.spec import TaggerSpec, write_spec

# name, image side, shape of the map: convolutions, channels-last maps, tokens with and without prefix tokens
FAMILIES = [
    ("test_efficientnet", 64, (256, 2, 2)),
    ("test_resnet", 64, (96, 2, 2)),
    ("test_convnext", 64, (64, 2, 2)),
    ("test_byobnet", 64, (256, 2, 2)),
    ("test_nfnet", 64, (192, 2, 2)),
    ("test_mambaout", 64, (64, 2, 2)),  # gives (B, h, w, C)
    ("test_vit", 64, (64, 4, 4)),  # one class token
    ("vit_tiny_r_s16_p8_224", 64, (192, 2, 2)),  # convolutions below a ViT
    ("swin_tiny_patch4_window7_224", 64, (768, 2, 2)),  # gives (B, h, w, C)
    ("xcit_nano_12_p16_224", 64, (128, 4, 4)),  # has a class token and does not say so
    ("mixer_s32_224", 224, (512, 7, 7)),  # tokens without any prefix
    ("vit_wee_patch16_reg1_gap_256", 64, (256, 4, 4)),  # one register
]
STAGED = [name for name, _, _ in FAMILIES if name not in ("test_nfnet", "vit_tiny_r_s16_p8_224")]


def pictures(side: int, count: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 3, side, side), generator=generator, dtype=torch.uint8)


def normalised(backbone: Backbone, pixels: torch.Tensor) -> torch.Tensor:
    return (pixels.float() - backbone.mean) / backbone.deviation


@pytest.mark.parametrize(("name", "side", "shape"), FAMILIES)
def test_features_of_every_family_are_one_map(name, side, shape):
    backbone = create_backbone(name, "none", size=side).eval()
    with torch.no_grad():
        features = backbone(pictures(side))
    assert features.shape == (2, *shape)
    assert backbone.out_channels == shape[0]
    assert torch.isfinite(features).all()


@pytest.mark.parametrize("name", ["test_vit", "xcit_nano_12_p16_224", "vit_wee_patch16_reg1_gap_256"])
def test_the_map_of_tokens_keeps_every_patch_in_its_place_and_no_prefix_token(name):
    backbone = create_backbone(name, "none", size=64).eval()
    with torch.no_grad():
        tokens = backbone.net.forward_features(normalised(backbone, pictures(64)))
        features = backbone(pictures(64))
    patches = tokens[:, -16:]
    for row in range(4):
        for column in range(4):
            torch.testing.assert_close(features[:, :, row, column], patches[:, 4 * row + column])


@pytest.mark.parametrize("name", ["swin_tiny_patch4_window7_224", "test_mambaout"])
def test_a_channels_last_map_is_turned_and_not_reshaped(name):
    backbone = create_backbone(name, "none", size=64).eval()
    with torch.no_grad():
        theirs = backbone.net.forward_features(normalised(backbone, pictures(64)))
        torch.testing.assert_close(backbone(pictures(64)), theirs.permute(0, 3, 1, 2))


@pytest.mark.parametrize("name", STAGED)
def test_intermediate_stages_have_the_channels_they_promise(name):
    side = next(side for family, side, _ in FAMILIES if family == name)
    backbone = create_backbone(name, "none", size=side).eval()
    wanted = [1, len(backbone.stage_channels)]
    with torch.no_grad():
        last, stages = backbone.forward_stages(pictures(side), wanted)
        alone = backbone(pictures(side))
    torch.testing.assert_close(last, alone, rtol=1e-4, atol=1e-5)
    assert [stage.shape[1] for stage in stages] == [backbone.stage_channels[place - 1] for place in wanted]
    assert all(stage.ndim == 4 and len(stage) == 2 for stage in stages)
    assert stages[0].shape[2] >= stages[1].shape[2]


def test_a_stage_that_does_not_exist_is_refused_with_those_that_do():
    backbone = create_backbone("test_efficientnet", "none")
    for stages in ([0], [6], [1, 99], [-1]):
        with pytest.raises(TaggerError, match="has the stages 1 to 5"):
            backbone.forward_stages(pictures(64), stages)


def test_pixels_are_normalised_by_the_networks_own_constants(monkeypatch):
    backbone = create_backbone("test_resnet", "none")
    mean, deviation = backbone.net.pretrained_cfg["mean"], backbone.net.pretrained_cfg["std"]
    seen = []
    run = backbone.net.forward_features
    monkeypatch.setattr(backbone.net, "forward_features", lambda images: (seen.append(images), run(images))[1])
    pixels = pictures(64)
    backbone(pixels)
    for channel in range(3):
        by_hand = (pixels[:, channel].float() / 255 - mean[channel]) / deviation[channel]
        torch.testing.assert_close(seen[0][:, channel], by_hand)


def test_integers_and_floats_of_the_same_value_give_the_same_features():
    backbone = create_backbone("test_efficientnet", "none").eval()
    with torch.no_grad():
        torch.testing.assert_close(backbone(pictures(64)), backbone(pictures(64).float()), rtol=0, atol=0)


def test_the_normalisation_travels_with_the_weights():
    state = create_backbone("test_resnet", "none").state_dict()
    assert {"mean", "deviation"} <= set(state)


def trained_steps(backbone: Backbone) -> None:
    """Do what a training loop does: train mode, forward, backward."""
    backbone.train()
    probe = torch.nn.Linear(backbone.out_channels, 1)
    for _ in range(2):
        probe(backbone(pictures(64)).mean((2, 3))).sum().backward()


@pytest.mark.parametrize("name", ["test_efficientnet", "test_resnet", "test_vit"])
def test_a_frozen_backbone_does_not_move_through_train_mode(name):
    backbone = create_backbone(name, "none", size=64, frozen=True)
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    trained_steps(backbone)
    assert not any(module.training for module in backbone.net.modules())
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in backbone.parameters())
    for key, value in backbone.state_dict().items():
        torch.testing.assert_close(value, before[key], rtol=0, atol=0)


def test_a_backbone_that_is_not_frozen_does_move():
    backbone = create_backbone("test_efficientnet", "none")
    before = backbone.net.bn1.running_mean.clone()
    trained_steps(backbone)
    assert not torch.equal(backbone.net.bn1.running_mean, before)
    assert all(parameter.grad is not None for parameter in backbone.parameters())


def test_stochastic_depth_is_there_in_training_only_and_refused_where_a_network_has_none():
    torch.manual_seed(0)
    backbone = create_backbone("test_resnet", "none", drop_path=0.9).train()
    for parameter in backbone.net.parameters():
        torch.nn.init.normal_(parameter)  # blocks begin as nothing, and passing over nothing cannot be seen
    assert not torch.equal(backbone(pictures(64)), backbone(pictures(64)))
    backbone.eval()
    assert torch.equal(backbone(pictures(64)), backbone(pictures(64)))
    with pytest.raises(TaggerError, match="no stochastic depth"):
        create_backbone("vgg11", "none", drop_path=0.1)


def test_thawing_lets_it_train_again():
    backbone = create_backbone("test_efficientnet", "none", frozen=True).train()
    backbone.freeze(False)
    assert backbone.net.training
    assert all(parameter.requires_grad for parameter in backbone.parameters())


def test_freezing_survives_the_train_call_of_a_network_around_it():
    backbone = create_backbone("test_efficientnet", "none", frozen=True)
    around = torch.nn.Sequential(backbone, torch.nn.BatchNorm2d(256)).train()
    assert around[1].training
    assert not backbone.net.training


def test_convolutions_are_channels_last():
    weight = create_backbone("test_efficientnet", "none").net.conv_head.weight
    stem = create_backbone("test_efficientnet", "none").net.conv_stem.weight
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert stem.stride()[1] == 1


def test_an_image_size_is_given_to_networks_that_need_one():
    assert create_backbone("test_vit", "none", size=96)(pictures(96)).shape == (2, 64, 6, 6)


def test_weights_from_a_file_are_the_ones_used(tmp_path):
    origin = create_backbone("test_efficientnet", "none")
    save_file({name: value.contiguous() for name, value in origin.net.state_dict().items()}, tmp_path / "w.safetensors")
    copy = create_backbone("test_efficientnet", str(tmp_path / "w.safetensors"))
    with torch.no_grad():
        torch.testing.assert_close(origin.eval()(pictures(64)), copy.eval()(pictures(64)), rtol=0, atol=0)


def test_bundled_weights_are_the_default_and_always_the_same():
    first, second, random = create_backbone(), create_backbone(), create_backbone(weights="none")
    with torch.no_grad():
        features = [backbone.eval()(pictures(64)) for backbone in (first, second, random)]
    torch.testing.assert_close(features[0], features[1], rtol=0, atol=0)
    assert not torch.allclose(features[0], features[2], atol=0.1)


@pytest.mark.parametrize("name", ["efficientnet_liet0", "tf_efficientnet_lite00", "nonsense", "", "hf-hub:a/b", "../x"])
def test_an_unknown_backbone_is_refused_with_names_that_exist(name):
    with pytest.raises(TaggerError, match=r"unknown backbone.*Known: .+timm\.list_models"):
        create_backbone(name, "none")


def test_an_unknown_tag_of_a_known_backbone_is_refused():
    with pytest.raises(TaggerError, match=r"'resnet50\.nonsense'"):
        create_backbone("resnet50.nonsense", "none")


def test_a_weights_file_that_is_not_there_is_refused():
    with pytest.raises(TaggerError, match="no such weights file"):
        create_backbone("test_resnet", "bundeld")


def test_the_hub_without_a_network_gives_one_error_that_names_the_other_ways(tmp_path):
    script = (
        "from tagloom.errors import TaggerError\n"
        "from tagloom.models.backbone import create_backbone\n"
        "try:\n    create_backbone('resnet18', 'hub')\n"
        "except TaggerError as error:\n    print(error)\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert time.monotonic() - started < 30
    assert done.stdout.count("\n") == 1
    for way in ("resnet18", "'bundled'", ".safetensors", "HF_HOME"):
        assert way in done.stdout


def test_plain_pixels_run_from_0_to_1_and_stay_so_in_a_tagger_folder(tmp_path):
    plain, own = (create_backbone("test_efficientnet", "none", normalise=choice) for choice in (False, True))
    own.net.load_state_dict(plain.net.state_dict())
    pixels = torch.randint(0, 256, (2, 3, 64, 64)).float()
    with torch.no_grad():
        torch.testing.assert_close(plain.eval()(pixels), plain.net.forward_features(pixels / 255))
        assert not torch.allclose(plain(pixels), own.eval()(pixels))
    network = TaggerNetwork(plain, create_head("gap", in_channels=plain.out_channels, classes=2)).eval()
    spec = TaggerSpec(("a", "b"), Preprocess(size=64), "test_efficientnet", "gap")
    save_weights(network, tmp_path)
    write_spec(spec, tmp_path)
    pictures = pixels.permute(0, 2, 3, 1)
    with torch.no_grad():
        torch.testing.assert_close(load_network(tmp_path, spec)(pictures), network(pictures))


def test_the_depths_of_a_network_can_be_chosen_and_are_needed_to_load_it():
    deeper = create_backbone("tresnet_v2_l", "none", depths=(1, 2, 1, 1))
    assert [len(stage) for stage in deeper.net.body[2:]] == [1, 2, 1, 1]
    assert deeper.out_channels == 2048
    with pytest.raises(TaggerError, match=r"'test_efficientnet' has depths of its own.*tresnet"):
        create_backbone("test_efficientnet", "none", depths=(1, 1))
