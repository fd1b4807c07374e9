"""Checkpoints with the names and shapes of the papers' authors become taggers that score as a plain reference does."""

from pathlib import Path

import numpy as np
import pytest
import torch
from authors_files import (
    Weights,
    make_timm,
    ml_decoder_logits,
    ml_decoder_tensors,
    query2label_logits,
    query2label_tensors,
    save,
    tresnet_tensors,
)
from torch import Tensor
from typer.testing import CliRunner

import tagloom
from tagloom.cli import app
from tagloom.errors import TaggerError
from tagloom.models.authors.convert import import_checkpoint
from tagloom.models.weights import load_file
from tagloom.tagger.spec import read_spec

SIZE = 64
PICTURES = np.random.default_rng(0).integers(0, 256, (2, SIZE, SIZE, 3), dtype=np.uint8)
MEAN, DEVIATION = (torch.tensor(v).view(1, 3, 1, 1) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
NAMES = tuple(f"label {number}" for number in range(12))


def pixels() -> Tensor:
    return torch.from_numpy(PICTURES).permute(0, 3, 1, 2) / 255


def scores(folder: Path) -> np.ndarray:
    return tagloom.load(folder, device="cpu").scores(list(PICTURES))


@pytest.fixture(scope="module")
def tresnet() -> torch.nn.Module:
    return make_timm("tresnet_v2_l", layers=[1, 2, 1, 1])


@pytest.fixture(scope="module")
def resnet() -> torch.nn.Module:
    return make_timm("resnet18")


def ml_decoder_file(net: torch.nn.Module, classes: int, queries: int) -> Weights:
    torch.manual_seed(1)
    return tresnet_tensors(net) | ml_decoder_tensors("head", 2048, classes, queries, width=16, hidden=24)


def query2label_file(net: torch.nn.Module, **options: object) -> Weights:
    torch.manual_seed(1)
    body = {f"backbone.0.body.{name}": value for name, value in net.state_dict().items() if "num_batches" not in name}
    choices = {"width": 16, "hidden": 24, "cells": 2, **options}
    return body | query2label_tensors(512, len(NAMES), **choices)  # type: ignore[arg-type]


@torch.no_grad()
@pytest.mark.parametrize(
    ("classes", "queries"), [(12, 12), (12, 4), (12, 5), (11, 8)], ids=["each", "even", "uneven", "idle queries"]
)
def test_ml_decoder_scores_as_the_reference_on_plain_pixels(tmp_path, tresnet, classes, queries):
    found = ml_decoder_file(tresnet, classes, queries)
    wanted = ml_decoder_logits(found, "head", tresnet.forward_features(pixels())).sigmoid()
    path = save(found, tmp_path / "model.pth", idx_to_class=dict(enumerate(NAMES[:classes])))
    spec = import_checkpoint("ml-decoder", path, tmp_path / "tagger", size=SIZE, onnx=False)
    assert (spec.backbone, spec.backbone_depths) == ("tresnet_v2_l", (1, 2, 1, 1))
    np.testing.assert_allclose(scores(tmp_path / "tagger"), wanted, rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("options", [{}, {"mixing": True}, {"width": 512, "project": False}], ids=str)
def test_query2label_scores_as_the_reference_on_normalised_pixels(tmp_path, resnet, options):
    found = query2label_file(resnet, **options)
    wanted = query2label_logits(found, resnet.forward_features((pixels() - MEAN) / DEVIATION)).sigmoid()
    path = save(found, tmp_path / "checkpoint.pkl")
    spec = import_checkpoint("query2label", path, tmp_path / "tagger", classes=NAMES, onnx=False)
    assert (spec.backbone, spec.preprocess.size) == ("resnet18", SIZE), "the file tells both"
    np.testing.assert_allclose(scores(tmp_path / "tagger"), wanted, rtol=0, atol=1e-5)


@torch.no_grad()
def test_the_command_writes_a_folder_that_predicts_without_torch(tmp_path, resnet):
    torch.manual_seed(1)
    head = ml_decoder_tensors("fc", 512, len(NAMES), 6, width=16, hidden=24)
    path = save({**resnet.state_dict(), **head}, tmp_path / "model.pth")
    (tmp_path / "classes.txt").write_text("\n".join(NAMES))
    out = tmp_path / "tagger"
    given = ["--classes", str(tmp_path / "classes.txt"), "--size", str(SIZE), "--out", str(out)]
    found = CliRunner().invoke(app, ["import", "ml-decoder", str(path), *given])
    assert found.exit_code == 0, found.output
    assert "resnet18 with head ml-decoder, 12 classes" in " ".join(found.output.split())
    tagger = tagloom.load(out, device="cpu")
    assert tagger.engine == "onnx"
    wanted = ml_decoder_logits(head, "fc", resnet.forward_features(pixels())).sigmoid()
    np.testing.assert_allclose(tagger.scores(list(PICTURES)), wanted, rtol=0, atol=1e-5)
    assert "Imported with Tagloom" in (out / "README.md").read_text()
    assert read_spec(out).data["sha256"]


def test_a_backbone_alone_loads_under_its_authors_names(tmp_path, tresnet):
    wanted = tresnet.state_dict()
    found = ml_decoder_file(tresnet, 12, 12)
    for wrapped in ({"model": found}, {"state_dict": found}, {"ema": {f"model.{n}": v for n, v in found.items()}}):
        torch.save(wrapped, tmp_path / "w.pth")
        net = make_timm("tresnet_v2_l", layers=[1, 2, 1, 1])
        load_file(net, tmp_path / "w.pth")
        for name, value in net.state_dict().items():
            if not name.endswith("num_batches_tracked"):
                torch.testing.assert_close(value, wanted[name], rtol=0, atol=1e-6)


def without(found: Weights, name: str) -> Weights:
    return {key: value for key, value in found.items() if key != name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: without(found, "fc.W"), r"has no tensor 'fc\.W'"),
        (lambda found: found | {"fc.more": torch.zeros(3)}, r"1 tensors have no place.*'fc\.more'"),
        (lambda found: found | {"backbone.0.body.layer5.w": torch.zeros(3)}, r"no place.*'layer5\.w'"),
        (lambda found: without(found, "backbone.0.body.conv1.weight"), "no known TResNet or ResNet.*--backbone"),
        (lambda found: without(found, "backbone.0.body.layer1.0.conv1.weight"), r"1 of the backbone's \d+ tensors"),
        (lambda found: found | {"fc.b": torch.zeros(1, 3)}, r"'fc\.b' has shape \(1, 3\); expected \(1, 12\)"),
        (lambda found: found | {"fc.b": torch.full((1, 12), torch.nan)}, "no finite numbers"),
        (lambda found: found | {"query_embed.weight": torch.zeros(3)}, "expected 2 dimensions"),
        (lambda found: found | {"fc.b": torch.zeros(1).expand(10**6, 10**6)}, "more than the file holds"),
        (
            lambda found: found | {"transformer.decoder.layers.0.self_attn.in_proj_weight": torch.zeros(48, 16)},
            "keep_first_self_attn_dec",
        ),
        (lambda found: found | {"transformer.decoder.layers.9.norm2.bias": torch.zeros(16)}, "numbered from 0"),
    ],
)
def test_anything_unexpected_is_named_and_nothing_is_written(tmp_path, resnet, change, message):
    path = save(change(query2label_file(resnet)), tmp_path / "checkpoint.pkl")
    with pytest.raises(TaggerError, match=message):
        import_checkpoint("query2label", path, tmp_path / "tagger", classes=NAMES)
    assert not (tmp_path / "tagger").exists()


def test_names_must_be_as_many_as_classes(tmp_path, resnet):
    path = save(query2label_file(resnet), tmp_path / "checkpoint.pkl")
    with pytest.raises(TaggerError, match="has 12 classes, but 3 names"):
        import_checkpoint("query2label", path, tmp_path / "tagger", classes=NAMES[:3])
    with pytest.raises(TaggerError, match=r"names no classes.*--classes"):
        import_checkpoint("query2label", path, tmp_path / "tagger")
    with pytest.raises(TaggerError, match=r"has no tensor 'head\.decoder\.embed_standart\.weight'"):
        import_checkpoint("ml-decoder", path, tmp_path / "tagger", classes=NAMES)


def test_a_zero_shot_model_is_refused_with_the_way_to_train_one(tmp_path, tresnet):
    found = without(ml_decoder_file(tresnet, 12, 12), "head.decoder.query_embed.weight")
    path = save(found | {"head.wordvec_proj.weight": torch.zeros(16, 300)}, tmp_path / "model.pth")
    with pytest.raises(TaggerError, match=r"zero-shot model.*quick-words"):
        import_checkpoint("ml-decoder", path, tmp_path / "tagger", classes=NAMES)
