"""Eight bits: a network whose convolutions and matrix products compute with small integers.

Every quantised tensor is followed by QuantizeLinear and DequantizeLinear, which is ONNX's own way to say so. ONNX
Runtime merges them with the layer between them into one step on integers.

- Weights are int8 with a scale for each output channel, symmetric; activations are uint8 with one scale and zero point.
- A Clip or ReLU after a convolution is dropped: uint8 cannot leave the range of what comes after it.
- Sums of two quantised tensors (residual connections) are computed in eight bits too.
- A matrix product takes integers and gives floats, since what follows it (biases, norms, softmax) is in floats.
"""

import copy
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tagloom.export.graph import Array, constants_of, consumers_of, on_the_way, replace_contents

Range: TypeAlias = tuple[float, float]
"""Smallest and largest value of a tensor."""

MAX_BIAS_STEPS = 2.0**30  # a bias is int32
BESIDE = "/beside"
_SMALLEST_SCALE = 1e-30


class Layer(NamedTuple):
    """A layer that can be quantised.

    Attributes:
        name: The tensor that it gives.
        weight: Its weight's name.
        source: The tensor that it reads.
        result: The tensor that is quantised after it: its own, or that of the Clip or ReLU that is dropped; None if
            its result stays in floats.
    """

    name: str
    weight: str
    source: str
    result: str | None


def find_layers(model: Any, output: str) -> list[Layer]:
    """Find the layers between pictures and an output that can be quantised, in their order."""
    constants, consumers, between = constants_of(model), consumers_of(model), on_the_way(model, output)
    outputs = {value.name for value in model.graph.output}
    layers = []
    for node in model.graph.node:
        if node.output[0] not in between or len(node.input) < 2 or node.input[1] not in constants:
            continue
        name, weight = node.output[0], constants[node.input[1]]
        if node.op_type == "MatMul" and weight.ndim == 2:
            layers.append(Layer(name, node.input[1], node.input[0], None))
        elif node.op_type == "Conv" and all(bias in constants for bias in node.input[2:]):
            after = consumers.get(name, [])
            merged = len(after) == 1 and name not in outputs and _can_be_dropped(after[0], constants)
            layers.append(Layer(name, node.input[1], node.input[0], after[0].output[0] if merged else name))
    return layers


def quantised_tensors(model: Any, layers: Collection[Layer]) -> list[str]:
    """Name the tensors whose ranges are needed to quantise these layers."""
    names = [name for layer in layers for name in (layer.source, layer.result) if name is not None]
    return list(dict.fromkeys([*names, *_sums(model, layers)]))


def quantise(
    model: Any, layers: Collection[Layer], ranges: Mapping[str, Range], shifts: Mapping[str, Array] | None = None
) -> Any:
    """Give a copy of a network in which these layers compute in eight bits.

    Args:
        model: The network.
        layers: The layers.
        ranges: The ranges of `quantised_tensors`.
        shifts: What is added to the biases of layers, by their names, (channels,) each.
    """
    made = _Quantised(model, layers, ranges, shifts or {})
    by_name = {layer.name: layer for layer in layers}
    dropped = {layer.result for layer in layers if layer.result not in (None, layer.name)}
    sums = set(_sums(model, layers))
    for node in model.graph.node:
        name = node.output[0]
        if name in by_name:
            made.add_layer(node, by_name[name])
        elif name in sums:
            made.add_sum(node)
        elif name not in dropped:
            made.nodes.append(node)
    result = copy.deepcopy(model)
    replace_contents(result, made.nodes, made.constants)
    return result


def quantise_beside(model: Any, layers: Collection[Layer], ranges: Mapping[str, Range]) -> Any:
    """Give a copy of a network that also computes each layer in eight bits, from what the layer reads in floats.

    The result of layer `name` in eight bits is `name` + `BESIDE`.
    """
    made = _Quantised(model, (), ranges, {})
    made.nodes.extend(model.graph.node)
    nodes = {node.output[0]: node for node in model.graph.node}
    for layer in layers:
        made.add_layer(nodes[layer.name], layer, layer.name + BESIDE)
    result = copy.deepcopy(model)
    replace_contents(result, made.nodes, made.constants)
    return result


class _Quantised:
    """The nodes and constants of a quantised network, while it is made."""

    def __init__(
        self, model: Any, layers: Collection[Layer], ranges: Mapping[str, Range], shifts: Mapping[str, Array]
    ) -> None:
        self.nodes: list[Any] = []
        self.constants = constants_of(model)
        self._ranges = ranges
        self._shifts = shifts
        # These keep their names after DequantizeLinear, so whoever reads them reads what was quantised.
        self._results = {layer.result for layer in layers if layer.result} | set(_sums(model, layers))
        self._copies: dict[str, str] = {}  # of tensors that were made in floats, for the layers that read eight bits

    def add_layer(self, node: Any, layer: Layer, result: str | None = None) -> None:
        """Add a layer in eight bits, which gives its own result or one of another name."""
        from onnx import helper

        source = self._in_eight_bits(layer.source)
        scale = float(self.constants[f"{source}/scale"])
        weight = self.constants[layer.weight]
        axis = 0 if node.op_type == "Conv" else 1
        bias = self.constants[node.input[2]] if len(node.input) > 2 else None
        if layer.name in self._shifts:
            bias = self._shifts[layer.name] + (0 if bias is None else bias)
        steps, scales = quantise_weight(weight, axis, bias, scale)
        inputs = [source, self._dequantised(f"{layer.name}/weight", steps, scales, axis)]
        if bias is not None:
            bias_steps = np.round(bias.astype(np.float64) / (scale * scales)).astype(np.int32)
            inputs.append(self._dequantised(f"{layer.name}/bias", bias_steps, np.float32(scale) * scales, 0))
        exact = layer.name if layer.result is None else f"{result or layer.name}/exact"
        made = helper.make_node(node.op_type, inputs, [exact])
        made.attribute.extend(node.attribute)
        self.nodes.append(made)
        if layer.result is not None:
            self._quantise(exact, result or layer.result, layer.result)

    def add_sum(self, node: Any) -> None:
        from onnx import helper

        name = node.output[0]
        self.nodes.append(helper.make_node("Add", list(node.input), [f"{name}/exact"]))
        self._quantise(f"{name}/exact", name, name)

    def _in_eight_bits(self, tensor: str) -> str:
        if tensor in self._results:
            return tensor
        if tensor not in self._copies:
            self._copies[tensor] = f"{tensor}/eight_bits"
            self._quantise(tensor, self._copies[tensor], tensor)
        return self._copies[tensor]

    def _quantise(self, source: str, target: str, tensor: str) -> None:
        """Add the two nodes that round a tensor to one of 256 values."""
        from onnx import helper

        scale, zero = scale_and_zero(self._ranges[tensor])
        names = [f"{target}/scale", f"{target}/zero"]
        self.constants |= dict(zip(names, (scale, zero), strict=True))
        self.nodes.append(helper.make_node("QuantizeLinear", [source, *names], [f"{target}/steps"]))
        self.nodes.append(helper.make_node("DequantizeLinear", [f"{target}/steps", *names], [target]))

    def _dequantised(self, name: str, steps: Array, scales: Array, axis: int) -> str:
        from onnx import helper

        names = [f"{name}/steps", f"{name}/scale", f"{name}/zero"]
        self.constants |= dict(
            zip(names, (steps, scales.astype(np.float32), np.zeros_like(steps, shape=len(scales))), strict=True)
        )
        self.nodes.append(helper.make_node("DequantizeLinear", names, [name], axis=axis))
        return name


def scale_and_zero(values: Range) -> tuple[Array, Array]:
    """Give the step and the zero point that spread uint8 over a range. Zero is always one of the 256 values.

    >>> scale, zero = scale_and_zero((-1.0, 4.1))
    >>> round(float(scale), 3), int(zero)
    (0.02, 50)
    """
    low, high = min(values[0], 0.0), max(values[1], 0.0)
    scale = max((high - low) / 255, _SMALLEST_SCALE)
    return np.asarray(scale, np.float32), np.asarray(np.clip(round(-low / scale), 0, 255), np.uint8)


def quantise_weight(weight: Array, axis: int, bias: Array | None, source_scale: float) -> tuple[Array, Array]:
    """Round a weight to int8 with a scale for each output channel.

    A channel whose weights are tiny beside its bias gets a larger scale, so that the bias fits into int32.

    Returns:
        The steps, int8, and their scales (channels,).
    """
    others = tuple(index for index in range(weight.ndim) if index != axis)
    scales = np.maximum(np.abs(weight).max(axis=others) / 127, _SMALLEST_SCALE)
    if bias is not None:
        scales = np.maximum(scales, np.abs(bias) / (source_scale * MAX_BIAS_STEPS))
    shape = [1] * weight.ndim
    shape[axis] = -1
    return np.clip(np.round(weight / scales.reshape(shape)), -127, 127).astype(np.int8), scales


def _can_be_dropped(node: Any, constants: Mapping[str, Array]) -> bool:
    """Whether a node only cuts values off, around zero; the range of uint8 then does the same."""
    if node.op_type == "Relu":
        return True
    if node.op_type != "Clip" or not all(name in constants for name in node.input[1:] if name):
        return False
    low, high = (
        float(constants[node.input[index]]) if len(node.input) > index and node.input[index] else 0.0
        for index in (1, 2)
    )
    return low <= 0 <= high


def _sums(model: Any, layers: Collection[Layer]) -> list[str]:
    """Name the sums of two tensors that are both quantised."""
    quantised = {layer.result for layer in layers if layer.result}
    found = []
    for node in model.graph.node:
        if node.op_type == "Add" and all(name in quantised for name in node.input):
            found.append(node.output[0])
            quantised.add(node.output[0])
    return found
