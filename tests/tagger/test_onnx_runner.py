"""Exported networks run in ONNX Runtime, in as many threads as we may use."""

import os

import numpy as np
import pytest

from tagloom.cores import usable_cores
from tagloom.errors import TaggerError
from tagloom.tagger.onnx_runner import OnnxNetwork


@pytest.fixture(scope="module")
def network(finished_run) -> OnnxNetwork:
    return OnnxNetwork(finished_run / "model.onnx", threads=1)


def pictures(count: int, size: int = 64) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, size, size, 3), dtype=np.uint8)


def test_any_number_of_pictures_gives_as_many_rows(network):
    for count in (1, 2, 7, 33):
        (logits,) = network(pictures(count))
        assert logits.shape == (count, 24)
        assert logits.dtype == np.float32


def test_a_picture_scores_the_same_alone_and_in_company(network):
    (together,) = network(pictures(5))
    for place in range(5):
        (alone,) = network(pictures(5)[place : place + 1])
        np.testing.assert_allclose(alone[0], together[place], rtol=1e-4, atol=1e-4)


def test_memory_that_is_not_contiguous_is_read_rightly(network):
    mirrored = pictures(2)[:, :, ::-1]
    np.testing.assert_allclose(network(mirrored)[0], network(np.ascontiguousarray(mirrored))[0])


@pytest.mark.parametrize("given", [pictures(1, 32), pictures(1).astype(np.float32), pictures(1)[0]])
def test_pictures_of_another_form_are_refused_by_our_own_error(network, given):
    with pytest.raises(TaggerError, match=r"model\.onnx: cannot be run"):
        network(given)


@pytest.mark.parametrize("content", [b"", b"no network", None])
def test_a_damaged_file_is_refused_with_its_name(finished_run, tmp_path, content):
    path = tmp_path / "model.onnx"
    path.write_bytes((finished_run / "model.onnx").read_bytes()[:5000] if content is None else content)
    with pytest.raises(TaggerError, match=r"model\.onnx: cannot be run.*delete it to use torch"):
        OnnxNetwork(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(TaggerError, match="cannot be run"):
        OnnxNetwork(tmp_path / "model.onnx")


def test_cores_are_those_we_may_use_or_were_told(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert usable_cores() == 3
    for nothing in ("", "0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", nothing)
        assert 1 <= usable_cores() <= (os.cpu_count() or 1)
