"""What the steps of an export need to know of an ONNX graph: its constants, and which node depends on which."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom.files import whole_file

Array = NDArray[Any]

PICTURES = "pictures"
"""The first input of every exported network."""

# What is folded gives no more values than it takes, but for products; `MAX_GROWTH` is their limit.
_FOLDED: dict[str, Callable[..., Array]] = {
    "Add": np.add,
    "Div": np.divide,
    "MatMul": np.matmul,
    "Mul": np.multiply,
    "Sub": np.subtract,
}
_ON_PIXELS = ("Transpose", "Cast", *_FOLDED)
MAX_GROWTH = 2  # a folded constant has at most this many times the values of what it is made from


def read_logits(path: Path) -> Any:
    """Read the part of an ONNX file that gives the logits, and compute what is constant in it.

    ONNX Runtime computes every output of a file, asked for or not, so without those for heat maps it is faster.
    """
    import onnx

    model = onnx.load(str(path))
    _keep_logits(model)
    fold_constants(model)
    return model


def write_graph(model: Any, path: Path) -> None:
    """Write an ONNX file, whole or not at all."""
    import onnx

    with whole_file(path) as partial:
        onnx.save(model, str(partial))


def constants_of(model: Any) -> dict[str, Array]:
    """Give the values of all constants by name."""
    from onnx import numpy_helper

    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def replace_contents(model: Any, nodes: Iterable[Any], constants: dict[str, Array]) -> None:
    """Give a graph other nodes, and those of the constants that they use."""
    from onnx import numpy_helper

    kept = list(nodes)
    used = {name for node in kept for name in node.input} | {output.name for output in model.graph.output}
    del model.graph.node[:], model.graph.initializer[:], model.graph.value_info[:]
    model.graph.node.extend(kept)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items() if name in used
    )


def consumers_of(model: Any) -> dict[str, list[Any]]:
    """Give the nodes that read each tensor."""
    found: dict[str, list[Any]] = {}
    for node in model.graph.node:
        for name in node.input:
            found.setdefault(name, []).append(node)
    return found


def on_the_way(model: Any, output: str) -> set[str]:
    """Name the tensors that depend on the pictures and on which an output depends."""
    after = {PICTURES}
    for node in model.graph.node:  # a node comes after those that make its inputs
        if not after.isdisjoint(node.input):
            after.update(node.output)
    before = {output}
    for node in reversed(model.graph.node):
        if not before.isdisjoint(node.output):
            before.update(node.input)
    return after & before


def fold_constants(model: Any) -> None:
    """Compute what depends on constants alone, such as weights that are stored in float16.

    ONNX Runtime could do it too, but not for a file that may come from a stranger: see `OnnxNetwork`. Here only steps
    are computed whose results are about as large as what they are made from.
    """
    constants = constants_of(model)
    kept = []
    for node in model.graph.node:
        value = _folded(node, constants)
        if value is None:
            kept.append(node)
        else:
            constants[node.output[0]] = value
    _use_single_numbers(kept, constants)
    replace_contents(model, kept, constants)


def _keep_logits(model: Any) -> None:
    outputs = list(model.graph.output)  # the logits come first
    del model.graph.output[:]
    model.graph.output.extend(outputs[:1])
    needed = {outputs[0].name}
    kept = []
    for node in reversed(model.graph.node):
        if not needed.isdisjoint(node.output):
            needed.update(node.input)
            kept.append(node)
    replace_contents(model, kept[::-1], constants_of(model))


def _folded(node: Any, constants: dict[str, Array]) -> Array | None:
    """Compute a node, if its inputs are constants and it is among those that are folded."""
    from onnx import helper

    if not node.input or not all(name in constants for name in node.input):
        return None
    given = [constants[name] for name in node.input]
    options = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    if node.op_type == "Cast":
        return np.asarray(given[0].astype(helper.tensor_dtype_to_np_dtype(options["to"])))
    if node.op_type == "Transpose":
        return np.ascontiguousarray(given[0].transpose(options.get("perm")))
    compute = _FOLDED.get(node.op_type)
    if compute is None or any(value.dtype != np.float32 for value in given):
        return None
    size = np.broadcast_shapes(*(value.shape[: -2 if compute is np.matmul else None] for value in given))
    if compute is np.matmul:
        size = (*size, *given[0].shape[-2:-1], *given[1].shape[-1:])
    if np.prod(size, dtype=np.float64) > MAX_GROWTH * sum(value.size for value in given):
        return None
    with np.errstate(all="ignore"):
        return np.asarray(compute(*given), np.float32)


def _use_single_numbers(nodes: list[Any], constants: dict[str, Array]) -> None:
    """Normalise pixels with one number where all three colours have the same.

    Whichever way ONNX Runtime then lays out pictures, that is quick; three numbers are not, with colours last.
    """
    pixels = {PICTURES}
    for node in nodes:
        if node.op_type not in _ON_PIXELS or node.input[0] not in pixels:
            continue
        pixels.add(node.output[0])
        for index, name in enumerate(node.input[1:], 1):
            value = constants.get(name)
            if value is not None and value.size == 3 and (value == value.flat[0]).all():
                single = f"{name}/single"
                constants[single] = np.asarray(value.flat[0])
                node.input[index] = single
