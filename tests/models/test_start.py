from pathlib import Path

import pytest
import torch

from tagloom.errors import TaggerError
from tagloom.models.network import TaggerNetwork, build_network, load_network
from tagloom.models.start import start_from
from tagloom.tagger.spec import read_spec


def network(classes: int, *, backbone: str = "tf_efficientnet_lite0", head: str = "gap") -> TaggerNetwork:
    return build_network(
        backbone=backbone, weights="none", head=head, head_options={}, classes=classes, size=64, frozen=False
    )


def test_the_same_head_and_labels_are_taken_over_whole(finished_run: Path) -> None:
    spec = read_spec(finished_run)
    fresh = network(len(spec.classes))
    assert start_from(fresh, finished_run, classes=spec.classes, head="gap", head_options=spec.head_options)
    trained = load_network(finished_run, spec).state_dict()
    assert all(torch.equal(value, trained[name]) for name, value in fresh.state_dict().items())


def test_with_other_labels_only_the_backbone_is_taken_over(finished_run: Path) -> None:
    spec = read_spec(finished_run)
    fresh = network(3)
    before = fresh.head.linear.weight.clone()
    assert not start_from(fresh, finished_run, classes=("a", "b", "c"), head="gap", head_options={})
    trained = load_network(finished_run, spec)
    assert torch.equal(fresh.backbone.net.conv_stem.weight, trained.backbone.net.conv_stem.weight)
    assert torch.equal(fresh.head.linear.weight, before)


def test_another_backbone_is_refused_with_its_name(finished_run: Path) -> None:
    fresh = network(3, backbone="test_efficientnet")
    with pytest.raises(TaggerError, match=r"backbone\.name=tf_efficientnet_lite0"):
        start_from(fresh, finished_run, classes=("a", "b", "c"), head="gap", head_options={})


def test_a_recipe_that_asks_for_plain_pixels_keeps_them(finished_run: Path) -> None:
    spec = read_spec(finished_run)
    plain = build_network(
        backbone="tf_efficientnet_lite0",
        weights="none",
        head="gap",
        head_options={},
        classes=3,
        size=64,
        frozen=False,
        normalise=False,
    )
    start_from(plain, finished_run, classes=("a", "b", "c"), head="gap", head_options={})
    assert not plain.backbone.mean.any()
    assert (plain.backbone.deviation == 255).all()
    trained = load_network(finished_run, spec).backbone
    assert torch.equal(plain.backbone.net.conv_stem.weight, trained.net.conv_stem.weight)
