"""A package from before heat maps gets them from its own weights, and scores as before."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tagloom.errors import TaggerError
from tagloom.export.float16 import store_in_float16
from tagloom.export.package import write_package
from tagloom.models import onnx_export
from tagloom.models.network import build_network, export_network
from tagloom.models.onnx_export import export_onnx
from tagloom.models.onnx_upgrade import add_insides
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.onnx_runner import OnnxNetwork
from tagloom.tagger.spec import TaggerSpec, write_spec

CLASSES = tuple(f"class {number}" for number in range(80))


def package(folder: Path, head: str = "ml-decoder-small") -> tuple[TaggerSpec, Path, Path]:
    """Write a tagger's network with its insides, and as an older Tagloom would have: logits alone, in float16."""
    torch.manual_seed(0)
    folder.mkdir(exist_ok=True)
    # Of its full size: in a small network the exporter folds the weights into others.
    names = {"backbone": "tf_efficientnet_lite0", "head": head, "head_options": {}}
    network = build_network(**names, weights="none", classes=80, size=64, frozen=True).eval()
    for parameter in network.head.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    network.head.scales[0].fit([torch.randn(50, network.backbone.out_channels).abs()])
    export_network(network, folder / "whole.onnx", size=64)
    with pytest.MonkeyPatch.context() as before:
        before.setattr(onnx_export, "MAX_FOLDED", 0)  # older ones computed constants at every call
        export_onnx(network, folder / "plain.onnx", size=64)
    store_in_float16(folder / "plain.onnx", folder / "model.onnx")
    spec = TaggerSpec(CLASSES, Preprocess(size=64), version="0", **names)
    write_spec(spec, folder)
    return spec, folder / "whole.onnx", folder / "model.onnx"


def test_evidence_is_added_and_logits_stay_to_the_bit(tmp_path: Path) -> None:
    spec, whole, old = package(tmp_path / "run")
    add_insides(old, tmp_path / "new.onnx", spec)
    pictures = np.random.default_rng(1).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    added = OnnxNetwork(tmp_path / "new.onnx")
    assert added.outputs == ("logits", "evidence", "features")
    np.testing.assert_array_equal(
        OnnxNetwork(tmp_path / "new.onnx", first_only=True)(pictures, fetch=["logits"])[0],
        OnnxNetwork(old)(pictures)[0],
    )
    expected = OnnxNetwork(whole)(pictures)
    for found, wanted in zip(added(pictures), expected, strict=True):
        # The weights are rounded, so some ReLUs of the evidence differ.
        assert np.abs(found - wanted).mean() < 0.01 * np.abs(wanted).max()
    assert (tmp_path / "new.onnx").stat().st_size < 1.2 * old.stat().st_size + 100_000
    options = {"rectify": False}  # the shapes fit, the logits do not
    with pytest.raises(TaggerError, match="differs by"):
        add_insides(old, tmp_path / "other.onnx", replace(spec, head_options=options))
    assert not (tmp_path / "other.onnx").exists()
    write_package(tmp_path / "run", tmp_path / "new")
    assert OnnxNetwork(tmp_path / "new" / "model.onnx").outputs == ("logits", "evidence", "features")


def test_a_head_that_cannot_be_rebuilt_is_refused(tmp_path: Path) -> None:
    spec, _, old = package(tmp_path / "run", "gap")
    with pytest.raises(TaggerError, match="cannot be rebuilt"):
        add_insides(old, tmp_path / "new.onnx", replace(spec, head="layover"))
    with pytest.raises(TaggerError, match="does not name the weights of its head"):
        add_insides(old, tmp_path / "new.onnx", spec)
    assert not (tmp_path / "new.onnx").exists()
