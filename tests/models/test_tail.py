"""A network that is cut in two computes what it did as a whole, and only its tail is trained."""

import pytest
import torch
from torch import nn

from tagloom.errors import TaggerError
from tagloom.models.backbone import Backbone, create_backbone
from tagloom.models.network import build_network

# name, image side, where it is cut, shape of what is kept of a picture, in the network's own layout
CUTS = [
    ("tf_efficientnet_lite0", 64, 4, (112, 4, 4)),
    ("tf_efficientnet_lite0", 64, "blocks.5", (192, 2, 2)),
    ("test_resnet", 64, 4, (192, 4, 4)),
    ("test_convnext", 64, 3, (48, 4, 4)),
    ("test_vit", 64, 3, (17, 64)),  # with its class token
    ("vit_wee_patch16_reg1_gap_256", 64, 12, (17, 256)),  # with a register
    ("eva02_tiny_patch14_224", 56, 10, (17, 192)),  # positions are turned in every block
    ("swin_tiny_patch4_window7_224", 64, 3, (4, 4, 384)),
    ("test_mambaout", 64, 2, (8, 8, 32)),
    ("test_nfnet", 64, 2, (32, 16, 16)),
    ("xcit_nano_12_p16_224", 64, 6, (16, 128)),  # its first module gives a tensor and two numbers
    ("densenet121", 64, 4, (1024, 4, 4)),  # its stages are parts of a part
]


def pictures(side: int, count: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 3, side, side), generator=generator, dtype=torch.uint8)


def lively(name: str, side: int, **options: float) -> Backbone:
    """A backbone without weights, whose norms do not hide what comes below them."""
    torch.manual_seed(0)
    return create_backbone(name, "none", size=side, **options)


def trainable(backbone: Backbone) -> set[str]:
    return {name for name, parameter in backbone.net.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize(("name", "side", "where", "shape"), CUTS)
def test_prefix_and_tail_in_turn_give_what_the_whole_network_gives(name, side, where, shape):
    backbone = lively(name, side).train_from(where, size=side).eval()
    with torch.no_grad():
        whole = backbone(pictures(side))
        kept = backbone.forward_prefix(pictures(side))
        tail, _ = backbone.forward_tail(kept.clone(memory_format=torch.contiguous_format), ())
        other, _ = backbone.forward_tail(kept + torch.randn_like(kept), ())
    assert kept.shape == (3, *shape)
    torch.testing.assert_close(tail, whole, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(other, whole, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("name", "side", "where", "shape"), CUTS)
def test_gradients_reach_the_tail_and_nothing_else(name, side, where, shape):
    backbone = lively(name, side).train_from(where, size=side)
    tail = trainable(backbone)
    assert 0 < len(tail) < len(list(backbone.net.parameters()))
    kept = backbone.forward_prefix(pictures(side))
    assert not kept.requires_grad
    backbone.forward_tail(kept, ())[0].square().sum().backward()
    reached = {name for name, value in backbone.net.named_parameters() if value.grad is not None}
    assert reached == tail


def test_stages_of_the_tail_are_those_of_the_whole_network():
    backbone = lively("test_efficientnet", 64).train_from(3, size=64, stages=(3, 5)).eval()
    with torch.no_grad():
        whole, whole_stages = backbone.forward_stages(pictures(64), (3, 5))
        tail, tail_stages = backbone.forward_tail(backbone.forward_prefix(pictures(64)), (3, 5))
    for ours, theirs in zip((tail, *tail_stages), (whole, *whole_stages), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_head_that_reads_a_stage_before_the_cut_is_refused_with_the_cuts_that_serve_it():
    with pytest.raises(TaggerError, match=r"reads stage 2, .* It can after the stages 1, 2\."):
        lively("test_efficientnet", 64).train_from(3, size=64, stages=(2, 5))


def state(backbone: Backbone) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in backbone.net.state_dict().items()}


def changed_by_training(backbone: Backbone, side: int = 64) -> set[str]:
    """What two steps on pictures change, by the name of the tensor."""
    before = state(backbone)
    backbone.train()
    optimiser = torch.optim.SGD([value for value in backbone.parameters() if value.requires_grad], lr=0.1)
    for _ in range(2):
        optimiser.zero_grad()
        backbone(pictures(side)).square().mean().backward()
        optimiser.step()
    return {name for name, value in backbone.net.state_dict().items() if not torch.equal(value, before[name])}


def test_training_changes_the_weights_of_the_tail_and_with_frozen_statistics_nothing_else():
    backbone = lively("test_efficientnet", 64).train_from(3, size=64)
    assert changed_by_training(backbone) == trainable(backbone)


def test_trained_statistics_move_in_the_tail_only():
    backbone = lively("test_efficientnet", 64).train_from(3, size=64, statistics="trained")
    statistics = changed_by_training(backbone) - trainable(backbone)
    assert statistics
    assert all(name.startswith(("blocks.3", "blocks.4", "bn2")) for name in statistics)
    assert {"bn2.running_mean", "bn2.running_var"} <= statistics


def test_stochastic_depth_skips_blocks_of_the_tail_only():
    torch.manual_seed(0)
    backbone = lively("test_vit", 64, drop_path=0.5).train_from(3, size=64)
    backbone.train()
    first, second = backbone.forward_prefix(pictures(64)), backbone.forward_prefix(pictures(64))
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert not torch.equal(backbone.forward_tail(first, ())[0], backbone.forward_tail(first, ())[0])


def test_a_cut_leaves_the_network_as_it_was():
    backbone = lively("test_resnet", 64).eval()
    before, whole = state(backbone), backbone(pictures(64))
    backbone.train_from(2, size=64)
    backbone.forward_tail(backbone.forward_prefix(pictures(64)), ())
    assert all(torch.equal(value, before[name]) for name, value in state(backbone).items())
    torch.testing.assert_close(backbone(pictures(64)), whole, rtol=0, atol=0)
    assert all("forward" not in vars(module) for module in backbone.net.modules())
    backbone.freeze(False)
    assert all(parameter.requires_grad for parameter in backbone.net.parameters())


def test_an_error_in_the_tail_leaves_the_network_as_it_was():
    backbone = lively("test_resnet", 64).train_from(2, size=64)
    with pytest.raises(RuntimeError):
        backbone.forward_tail(torch.zeros(1, 7, 3, 3), ())
    assert all("forward" not in vars(module) for module in backbone.net.modules())


class Skipping(nn.Module):
    """A network whose last part also reads what the first one gave."""

    num_features = 4
    feature_info = tuple({"num_chs": 4, "module": name} for name in ("first", "second", "third"))

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1)
        self.third, self.last = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)

    def forward_features(self, images: torch.Tensor) -> torch.Tensor:
        first = self.first(images)
        return self.last(self.third(self.second(first)) + first)


def test_a_network_whose_parts_do_not_simply_follow_one_another_is_refused_where_they_do_not():
    backbone = Backbone(Skipping(), "skipping", (0.5,) * 3, (0.2,) * 3)
    for stage in (2, 3):
        with pytest.raises(TaggerError, match=r"also reads what comes before\. It can after the stages 1\."):
            backbone.train_from(stage, size=32)
    backbone.train_from(1, size=32)
    assert {name.partition(".")[0] for name in trainable(backbone)} == {"second", "third", "last"}


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (6, "after stage 6: it has the stages 1 to 5. It can after the stages 1, 2, 3, 4."),
        (5, "after stage 5: nothing that could be trained comes after it. It can after the stages 1, 2, 3, 4."),
        ("layer9", "after module 'layer9': it has no module of that name; its stages are the modules act1, layer1"),
        ("fc", "after module 'fc': the module 'fc' runs 0 times for a picture."),
    ],
)
def test_a_place_that_cannot_be_used_is_refused_with_those_that_can(where, message):
    with pytest.raises(TaggerError) as caught:
        lively("test_resnet", 64).train_from(where, size=64)
    assert message in str(caught.value)


def test_a_backbone_without_a_tail_says_so():
    with pytest.raises(TaggerError, match="call train_from first"):
        lively("test_resnet", 64).forward_prefix(pictures(64))


@pytest.mark.parametrize("head", ["gap", "ml-decoder-small", "layover"])
def test_a_tagger_gives_the_same_logits_from_what_is_kept_as_from_pictures(head):
    network = build_network(
        backbone="test_efficientnet", weights="none", head=head, classes=5, size=64, frozen=True,
        head_options={"stages": [4]} if head == "layover" else {},
    )  # fmt: skip
    network.backbone.train_from(3, size=64, stages=network.head.stages)
    network.eval()
    photos = pictures(64).permute(0, 2, 3, 1)
    with torch.no_grad():
        (kept,) = network.kept(photos)
        torch.testing.assert_close(network.classify_kept(kept), network(photos), rtol=1e-4, atol=1e-5)
    assert network.kept_names == ("output of blocks.2",)
