"""The same network in half the bytes: weights are stored in float16 and used in float32.

Each large weight of an ONNX file is rounded to float16 and followed by a Cast to float32, which ONNX Runtime runs once,
when it loads the file. The file is half as large, every step is computed as before and as fast, and the only change is
the rounding of weights, to about one part in two thousand.
"""

from pathlib import Path
from typing import Any

import numpy as np

from tagloom.files import whole_file

LARGEST = 60_000.0  # tensors with a larger weight are close to the limit of float16, and stay as they are
SUFFIX = "_float16"


def store_in_float16(source: Path, target: Path) -> int:
    """Write a copy of an ONNX file whose weights are stored in float16.

    Vectors, such as biases, stay in float32: they are a small part of the file.

    Returns:
        How many tensors were rounded.
    """
    import onnx

    model = onnx.load(str(source))
    casts = []
    for tensor in model.graph.initializer:
        values = _large_weights(tensor)
        if values is None:
            continue
        name, stored = tensor.name, tensor.name + SUFFIX
        tensor.CopyFrom(onnx.numpy_helper.from_array(values.astype(np.float16), stored))
        casts.append(onnx.helper.make_node("Cast", [stored], [name], to=onnx.TensorProto.FLOAT))
    nodes = [*casts, *model.graph.node]  # a node must come after those that make its inputs
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    with whole_file(target) as partial:
        onnx.save(model, str(partial))
    return len(casts)


def _large_weights(tensor: Any) -> Any:
    """Give the values of a tensor that is worth rounding; None for any other."""
    import onnx

    if tensor.data_type != onnx.TensorProto.FLOAT or len(tensor.dims) < 2:
        return None
    values = onnx.numpy_helper.to_array(tensor)
    return values if np.abs(values).max(initial=0.0) <= LARGEST else None
