"""Weights stored in float16 are cast once, when a file is loaded, and only such weights."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tagloom.tagger.onnx_weights import weights_in_float32

WEIGHT = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float16)


def model(*nodes, inputs=(), outputs=("y",), weights=None) -> bytes:
    """Write a model of x (n, 3) with a weight in float16."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in ("x",)]
    values += [helper.make_tensor_value_info(name, TensorProto.FLOAT16, [3, 5]) for name in inputs]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["a", "b"]) for name in outputs]
    tensors = weights or [numpy_helper.from_array(WEIGHT, "w16")]
    graph = helper.make_graph(list(nodes), "g", values, made, tensors)
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return bytes(built.SerializeToString())


def cast(name: str = "w", to: int = TensorProto.FLOAT):
    return helper.make_node("Cast", ["w16"], [name], to=to)


def operators(content: bytes) -> list[str]:
    return [node.op_type for node in onnx.load_from_string(content).graph.node]


def run(content: bytes) -> list[np.ndarray]:
    onnx.checker.check_model(content, full_check=True)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.arange(12, dtype=np.float32).reshape(4, 3)})


MATMUL = helper.make_node("MatMul", ["x", "w"], ["y"])


def test_the_cast_is_gone_and_the_numbers_are_the_same():
    given = model(cast(), MATMUL)
    found = weights_in_float32(memoryview(given))
    assert operators(found) == ["MatMul"]
    np.testing.assert_array_equal(run(found)[0], run(given)[0])


def test_a_weight_that_is_used_elsewhere_stays():
    again = helper.make_node("Cast", ["w16"], ["w_64"], to=TensorProto.DOUBLE)
    back = helper.make_node("Cast", ["w_64"], ["z"], to=TensorProto.FLOAT)
    given = model(cast(), again, MATMUL, back, outputs=("y", "z"))
    found = weights_in_float32(memoryview(given))
    assert operators(found) == ["Cast", "MatMul", "Cast"]
    for ours, theirs in zip(run(found), run(given), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_thousand_casts_of_one_weight_make_one_copy():
    large = numpy_helper.from_array(np.zeros((3, 5000), np.float16), "w16")
    given = model(cast(), *(cast(f"w{number}") for number in range(1000)), MATMUL, weights=[large])
    found = weights_in_float32(memoryview(given))
    assert operators(found).count("Cast") == 1000
    assert len(found) < len(given) + 4 * 15_000 + 100


@pytest.mark.parametrize(
    "content",
    [
        model(cast(), MATMUL, inputs=("w16",)),  # whoever calls it may give another weight
        model(cast("y")),  # a result of the network
        model(cast(to=TensorProto.FLOAT16), cast("w"), MATMUL, weights=[numpy_helper.from_array(WEIGHT[:, :0], "v")]),
        model(helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)),
        b"",
    ],
    ids=["an input", "an output", "no such weight", "no weight", "empty"],
)
def test_what_is_no_constant_weight_is_left_alone(content):
    assert weights_in_float32(memoryview(content)) is None


def test_a_weight_whose_bytes_do_not_fit_its_dimensions_is_left_alone():
    tensor = numpy_helper.from_array(WEIGHT, "w16")
    tensor.raw_data = tensor.raw_data[:-2]
    assert weights_in_float32(memoryview(model(cast(), MATMUL, weights=[tensor]))) is None


def test_damaged_files_raise_nothing_but_value_errors():
    given = bytearray(model(cast(), MATMUL))
    rng = np.random.default_rng(0)
    for _ in range(500):
        damaged = given.copy()
        for place in rng.integers(len(damaged), size=3):
            damaged[place] = rng.integers(256)
        try:
            weights_in_float32(memoryview(bytes(damaged)[: rng.integers(1, len(damaged) + 1)]))
        except ValueError:
            continue
