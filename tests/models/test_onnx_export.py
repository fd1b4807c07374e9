"""The ONNX copy computes what torch computes at every batch size, or it is not kept."""

import numpy as np
import pytest
import torch
from torch import nn

from tagloom.errors import TaggerError
from tagloom.models import onnx_export as export
from tagloom.models.network import TaggerNetwork, build_network
from tagloom.models.onnx_export import export_onnx
from tagloom.tagger.onnx_runner import OnnxNetwork

SIZE = 32


def tiny_tagger() -> TaggerNetwork:
    torch.manual_seed(0)
    network = build_network(
        backbone="test_efficientnet",
        weights="none",
        head="gap",
        head_options={},
        classes=5,
        size=SIZE,
        frozen=True,
    )
    nn.init.normal_(network.head.linear.weight)
    return network


class Mean(nn.Module):
    """The smallest network of pictures: it exports in a moment."""

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return pictures.float().mean((1, 2))


def pictures(count: int) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 256, (count, SIZE, SIZE, 3), dtype=np.uint8)


def test_a_tagger_and_its_copy_agree_at_every_batch_size(tmp_path):
    network = tiny_tagger()
    assert export_onnx(network, tmp_path / "model.onnx", size=SIZE) <= 1e-4
    exported = OnnxNetwork(tmp_path / "model.onnx")
    for batch in (1, 2, 3, 7, 16):
        with torch.no_grad():
            ours = network.eval()(torch.from_numpy(pictures(batch))).numpy()
        (theirs,) = exported(pictures(batch))
        assert theirs.shape == (batch, 5)
        np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-4)
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"], "one file, weights inside"


def test_a_network_of_several_outputs_keeps_them_all_in_order(tmp_path):
    class MeanAndLast(nn.Module):
        def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return pictures.float().mean((1, 2)), pictures[:, -1, -1].float()

    export_onnx(MeanAndLast(), tmp_path / "model.onnx", size=SIZE)
    mean, last = OnnxNetwork(tmp_path / "model.onnx")(pictures(3))
    np.testing.assert_allclose(mean, pictures(3).mean((1, 2)), rtol=1e-5)
    np.testing.assert_array_equal(last, pictures(3)[:, -1, -1])


@pytest.mark.parametrize("difference", [1.0, 2e-4, float("nan")])
def test_a_copy_that_differs_is_not_kept(tmp_path, monkeypatch, difference):
    def differing(self, pictures):
        return [pictures.astype(np.float32).mean((1, 2)) * (1 + difference)]

    monkeypatch.setattr(OnnxNetwork, "__call__", differing)
    with pytest.raises(TaggerError, match="differs from torch"):
        export_onnx(Mean(), tmp_path / "model.onnx", size=SIZE)
    assert list(tmp_path.iterdir()) == []


def test_the_tolerance_decides(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "TOLERANCE", -1.0)
    with pytest.raises(TaggerError, match="differs from torch"):
        export_onnx(Mean(), tmp_path / "model.onnx", size=SIZE)
    assert list(tmp_path.iterdir()) == []


def test_an_older_copy_stays_when_the_new_one_fails(tmp_path, monkeypatch):
    (tmp_path / "model.onnx").write_bytes(b"the one before")
    monkeypatch.setattr(export, "TOLERANCE", -1.0)
    with pytest.raises(TaggerError):
        export_onnx(Mean(), tmp_path / "model.onnx", size=SIZE)
    assert (tmp_path / "model.onnx").read_bytes() == b"the one before"


def test_a_network_without_an_onnx_form_is_refused_by_our_own_error(tmp_path):
    class Strange(nn.Module):
        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(np.sort(pictures.numpy().ravel())[:1])

    with pytest.raises(TaggerError, match="could not be exported to ONNX"):
        export_onnx(Strange(), tmp_path / "model.onnx", size=SIZE)
    assert list(tmp_path.iterdir()) == []


def test_the_comparison_really_runs_every_checked_batch(tmp_path, monkeypatch):
    seen = []
    run = OnnxNetwork.__call__
    monkeypatch.setattr(OnnxNetwork, "__call__", lambda self, given: (seen.append(len(given)), run(self, given))[1])
    export_onnx(Mean(), tmp_path / "model.onnx", size=SIZE)
    assert seen == [1, 2, 7]


def test_exporting_is_silent(tmp_path, capfd):
    export_onnx(Mean(), tmp_path / "model.onnx", size=SIZE)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_an_exported_network_says_nothing_about_the_machine(tmp_path):
    export_onnx(tiny_tagger(), tmp_path / "model.onnx", size=SIZE)
    content = (tmp_path / "model.onnx").read_bytes()
    assert b"site-packages" not in content
    assert b"stack_trace" not in content
