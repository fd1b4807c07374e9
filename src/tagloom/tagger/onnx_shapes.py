"""How many dimensions the tensors of an ONNX graph can have at most.

ONNX Runtime writes down every dimension of every tensor while it loads a file. Where a shape is computed, its length is
the number of dimensions, so a file of 200 bytes could ask for 2⁴⁰ of them, in memory that has no limit.
"""

import math
from collections.abc import Sequence

MAX_DIMENSIONS = 512  # far beyond any network, and 20,000 nodes of them fit into memory

# Inputs whose length becomes the number of dimensions of the result.
_SHAPES = {
    "Reshape": (1,),
    "Expand": (1,),
    "ConstantOfShape": (0,),
    "Tile": (1,),
    "Resize": (2, 3),
    "Upsample": (1,),
    "MaxUnpool": (2,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "AffineGrid": (1,),
}
# What computes shapes, by how many values it gives at most: as many as its first input, or the product of all.
_NOT_LONGER = (
    *("Cast", "Identity", "Slice", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Transpose", "Split", "Neg", "Abs"),
    *("Floor", "Ceil", "Round", "Sqrt", "Sign", "Not", "Clip", "ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin"),
)
_SPREAD = ("Gather", "Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Where", "Equal", "Greater", "Less", "And", "Or")


class ShapeLimits:
    """Follows a graph node by node, with a limit for the values and the dimensions of every tensor that has a name."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}  # absent: without a limit
        self._dimensions: dict[str, float] = {}

    def add_tensor(self, name: str, values: int, dimensions: int) -> None:
        """Add a tensor that the file holds."""
        self._values[name], self._dimensions[name] = values, dimensions

    def add_node(self, operator: str, inputs: Sequence[str], outputs: Sequence[str], size: int) -> bool:
        """Add the results of a node of so many bytes. Give False if one of them could have too many dimensions."""
        values = [self._values.get(name, math.inf) for name in inputs]
        dimensions = [self._dimensions.get(name, 8) for name in inputs]  # 8: the inputs of the network
        most = _most_dimensions(operator, inputs, values, dimensions, size)
        for name in outputs:
            self._values[name] = _most_values(operator, values, dimensions, size)
            self._dimensions[name] = most
        return most <= MAX_DIMENSIONS


def _most_values(operator: str, values: Sequence[float], dimensions: Sequence[float], size: int) -> float:
    if operator in ("Constant", "Size"):
        return size  # every value takes at least a byte
    if operator == "Shape":
        return max(dimensions, default=0)
    if operator == "Concat":
        return sum(values)
    if operator in _NOT_LONGER:
        return max(values[:1], default=math.inf)
    return math.prod(max(1, count) for count in values) if operator in _SPREAD else math.inf


def _most_dimensions(
    operator: str, inputs: Sequence[str], values: Sequence[float], dimensions: Sequence[float], size: int
) -> float:
    given = [values[index] for index in _SHAPES.get(operator, ()) if index < len(inputs) and inputs[index]]
    if operator in ("Reshape", "Expand", "ConstantOfShape"):
        return max([*given, *(dimensions[:1] if operator == "Expand" else [])], default=size)
    before = max(dimensions, default=8)
    if operator == "Unsqueeze":
        return before + (values[1] if len(values) > 1 else size)
    if operator in ("Gather", "GatherND", "GatherElements", "OneHot"):
        return sum(dimensions) + 1
    if operator in ("RandomNormal", "RandomUniform", "Einsum"):
        return before + size
    return max([before, 8, *given])
