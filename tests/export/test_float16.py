"""Weights stored in float16 are rounded and nothing else: the network computes in float32 as before."""

import numpy as np
import onnx
import pytest

from tagloom.export.float16 import SUFFIX, store_in_float16
from tagloom.tagger.onnx_runner import OnnxNetwork


def pictures(count: int) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def halved(untrained_run, tmp_path_factory):
    path = tmp_path_factory.mktemp("half") / "model.onnx"
    assert store_in_float16(untrained_run / "model.onnx", path) > 10
    return path


def test_the_network_is_the_one_with_rounded_weights(untrained_run, halved, tmp_path):
    model = onnx.load(str(untrained_run / "model.onnx"))
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1:
            rounded = onnx.numpy_helper.to_array(tensor).astype(np.float16).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(rounded, tensor.name))
    onnx.save(model, str(tmp_path / "rounded.onnx"))
    for count in (1, 3):
        ours, theirs = (OnnxNetwork(path)(pictures(count))[0] for path in (halved, tmp_path / "rounded.onnx"))
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_matrices_take_two_bytes_a_weight_and_vectors_stay(untrained_run, halved):
    before = {t.name: t for t in onnx.load(str(untrained_run / "model.onnx")).graph.initializer}
    after = {t.name: t for t in onnx.load(str(halved)).graph.initializer}
    for name, tensor in before.items():
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1:
            assert after[name + SUFFIX].data_type == onnx.TensorProto.FLOAT16
            assert list(after[name + SUFFIX].dims) == list(tensor.dims)
            assert name not in after
        else:
            assert after[name] == tensor
    onnx.checker.check_model(str(halved), full_check=True)


def test_a_weight_that_float16_cannot_hold_stays_as_it_is(tmp_path):
    weights = {"huge": np.float32([[1e6]]), "small": np.float32([[1.0]])}
    shape = [1, 1]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Mul", ["x", "huge"], ["y"]), onnx.helper.make_node("Mul", ["y", "small"], ["z"])],
        "scaling",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, shape)],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, str(tmp_path / "model.onnx"))
    assert store_in_float16(tmp_path / "model.onnx", tmp_path / "half.onnx") == 1
    assert OnnxNetwork(tmp_path / "half.onnx")(np.float32([[2.0]]))[0].item() == 2e6
