"""A network in eight bits computes what its float form computes, up to the rounding that was asked for."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tagloom.export.graph import constants_of, fold_constants, write_graph
from tagloom.export.int8 import quantise_network
from tagloom.export.qdq import find_layers, quantise, quantise_weight, quantised_tensors, scale_and_zero
from tagloom.export.ranges import find_ranges, rank_layers, run_network
from tagloom.export.shifts import find_shifts
from tagloom.tagger.onnx_runner import OnnxNetwork

SIDE = 16


def network(dead_channel: bool = False, wild_channel: float = 1.0) -> onnx.ModelProto:
    """Normalisation, two convolutions with a residual sum, a matrix product: what taggers are made of."""
    rng = np.random.default_rng(3)
    first, second = rng.normal(0, 0.5, (8, 3, 3, 3)), rng.normal(0, 0.3, (8, 8, 3, 3))
    second[0] *= wild_channel
    if dead_channel:
        first[2] = 0
    constants = {
        "mean": np.full((3, 1, 1), 127.5),
        "first.weight_float16": first.astype(np.float16),
        "first.bias": rng.normal(0, 0.5, 8),
        "second.weight": second,
        "zero": np.zeros(()),
        "six": np.full((), 6.0),
        "linear": rng.normal(0, 0.4, (8, 5)),
    }
    nodes = [
        helper.make_node("Cast", ["first.weight_float16"], ["first.weight"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["pictures"], ["planes"], perm=[0, 3, 1, 2]),
        helper.make_node("Cast", ["planes"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["pixels", "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "mean"], ["normal"]),
        helper.make_node("Conv", ["normal", "first.weight", "first.bias"], ["a"], pads=[1] * 4),
        helper.make_node("Clip", ["a", "zero", "six"], ["b"]),
        helper.make_node("Conv", ["b", "second.weight"], ["c"], pads=[1] * 4),
        helper.make_node("Add", ["c", "b"], ["d"]),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("GlobalAveragePool", ["e"], ["f"]),
        helper.make_node("Flatten", ["f"], ["g"]),
        helper.make_node("MatMul", ["g", "linear"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("pictures", TensorProto.UINT8, ["batch", SIDE, SIDE, 3])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 5])],
        [
            numpy_helper.from_array(value if value.dtype == np.float16 else value.astype(np.float32), name)
            for name, value in constants.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    """Smooth pictures, since noise averages out."""
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (24, 4, 4, 3), dtype=np.uint8)
    return small.repeat(SIDE // 4, axis=1).repeat(SIDE // 4, axis=2)


def logits(model: onnx.ModelProto, pictures: np.ndarray, folder) -> np.ndarray:
    write_graph(model, folder / "network.onnx")
    return OnnxNetwork(folder / "network.onnx", threads=1)(pictures)[0]


def test_folding_computes_constants_and_changes_nothing(pictures, tmp_path):
    model = network()
    before = logits(model, pictures, tmp_path)
    fold_constants(model)
    assert "first.weight" in constants_of(model)
    assert [constants_of(model)[name].shape for name in ("mean/single",)] == [()], "one number for all colours"
    np.testing.assert_allclose(logits(model, pictures, tmp_path), before, atol=1e-5)


def test_folding_does_not_blow_up_a_small_file():
    column, row = np.ones((4096, 1), np.float32), np.ones((1, 4096), np.float32)
    graph = helper.make_graph(
        [helper.make_node("Mul", ["column", "row"], ["huge"])],
        "bomb",
        [],
        [helper.make_tensor_value_info("huge", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(column, "column"), numpy_helper.from_array(row, "row")],
    )
    model = helper.make_model(graph)
    fold_constants(model)
    assert [node.op_type for node in model.graph.node] == ["Mul"]


@pytest.mark.parametrize("dead_channel", [False, True])
def test_eight_bits_give_nearly_the_same_logits(pictures, tmp_path, dead_channel):
    model = network(dead_channel)
    fold_constants(model)
    layers = find_layers(model, "logits")
    assert [layer.weight for layer in layers] == ["first.weight", "second.weight", "linear"]
    ranges = find_ranges(model, (pictures, ()), quantised_tensors(model, layers))
    assert 0 <= ranges["b"][0] <= ranges["b"][1] <= 6
    quantised = quantise(model, layers, ranges)
    onnx.checker.check_model(quantised)
    kinds = [node.op_type for node in quantised.graph.node]
    assert "Clip" not in kinds, "uint8 cuts off by itself"
    exact, rounded = logits(model, pictures, tmp_path), logits(quantised, pictures, tmp_path)
    error = np.abs(exact - rounded).max() / np.abs(exact).max()
    assert 0 < error < 0.03


def test_a_rounded_weight_is_off_by_at_most_half_a_step_of_its_own_channel():
    weight = np.random.default_rng(0).normal(0, [[0.01], [10.0]], (2, 50))
    steps, scales = quantise_weight(weight, 0, None, 1.0)
    assert steps.dtype == np.int8
    assert (np.abs(steps * scales[:, None] - weight) <= scales[:, None] / 2 + 1e-9).all()
    np.testing.assert_allclose(scales, np.abs(weight).max(axis=1) / 127)


def test_a_bias_beside_tiny_weights_fits_into_int32():
    _, scales = quantise_weight(np.full((1, 4), 1e-20), 0, np.array([3.0]), 0.01)
    assert abs(3.0 / (0.01 * scales[0])) <= 2**31 - 1


@pytest.mark.parametrize("values", [(-1.0, 4.0), (0.0, 6.0), (2.0, 3.0), (-3.0, -1.0), (0.0, 0.0)])
def test_zero_is_exact_in_every_range(values):
    scale, zero = scale_and_zero(values)
    reached = (np.array([0, 255]) - int(zero)) * float(scale)
    assert reached[0] <= 0 <= reached[1]
    assert reached[0] <= values[0] + scale
    assert reached[1] >= values[1] - scale


def test_bias_correction_lowers_the_mean_error_of_a_layer(pictures):
    model = network()
    fold_constants(model)
    layers = find_layers(model, "logits")[:1]
    ranges = find_ranges(model, (pictures, ()), quantised_tensors(model, layers))
    ranges["normal"] = (0.8 * ranges["normal"][0], ranges["normal"][1])  # dark pixels are cut off: a mean error

    def means(found: onnx.ModelProto) -> np.ndarray:
        return np.mean(
            [values[0].reshape(8, -1).mean(axis=1) for values in run_network(found, (pictures, ()), ["b"])], 0
        )

    shifts = find_shifts(model, layers, ranges, (pictures, ()))
    plain, shifted = (
        np.abs(means(quantise(model, layers, ranges, given)) - means(model)).mean() for given in (None, shifts)
    )
    assert shifted < 0.7 * plain, "where ReLU cuts off, a shift has less effect"


def test_the_layer_that_hurts_is_found_and_kept_in_floats(pictures, tmp_path):
    model = network()
    fold_constants(model)
    layers = find_layers(model, "logits")
    ranges = find_ranges(model, (pictures, ()), quantised_tensors(model, layers))
    ranges["g"] = (0.0, ranges["g"][1] / 20)  # the last layer, spoilt
    order = rank_layers(
        lambda number: quantise(model, layers[number : number + 1], ranges), 3, model, (pictures[:8], ()), "logits"
    )
    assert order[0] == 2


def test_layers_go_back_to_floats_only_while_the_outcome_is_bad(pictures):
    model = network()
    fold_constants(model)
    tried = []

    def good_at(number: int):
        tried.clear()
        return lambda found: tried.append(found) or len(tried) == number

    assert quantise_network(model, (pictures, ()), good_at(1)).in_float == ()
    result = quantise_network(model, (pictures, ()), good_at(2))
    assert len(result.in_float) == 1
    assert result.layers == 2
    names = {tensor.name for tensor in result.model.graph.initializer}
    assert set(result.in_float) <= names, "its weight is still there in floats"
