"""Weights that an ONNX file stores in float16, in float32, so that they are not cast again at every call.

`tagloom export --float16` stores a weight in float16 with a Cast behind it. ONNX Runtime runs such a Cast once, when it
loads a file, as one of the constants that it folds. It may not fold those of a stranger's file: that computes whatever
the file asks for, in memory that has no limit. Here only weights are cast that the file holds, each once, so all of it
takes at most twice as much as the file.
"""

import math

import numpy as np

from tagloom.tagger.protobuf import Message, bytes_field, fields, number_field

MAX_BYTES = 2**31 - 1  # what Protocol Buffers can hold

# Numbers of the fields in onnx.proto.
_MODEL_GRAPH = 7
_GRAPH_NODES, _GRAPH_INITIALIZERS, _GRAPH_INPUTS, _GRAPH_OUTPUTS = 1, 5, 11, 12
_NODE_INPUTS, _NODE_OUTPUTS, _NODE_OPERATOR, _NODE_ATTRIBUTES = 1, 2, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_NUMBER, _VALUE_NAME = 1, 3, 1
_TENSOR_DIMENSIONS, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_BYTES = 1, 2, 8, 9
_FLOAT32, _FLOAT16 = 1, 10


def weights_in_float32(content: memoryview) -> bytes | None:
    """Give an ONNX file with the weights in float32 that it casts to float32; None if there are none.

    Raises:
        ValueError: If it is not an ONNX file.
    """
    graphs = [value for field, value, _ in fields(content) if field == _MODEL_GRAPH and isinstance(value, memoryview)]
    whole = graphs[0] if len(graphs) == 1 else memoryview(b"".join(graphs))
    graph = Message(whole)
    casts = _casts_of_weights(graph)
    if not casts:
        return None
    rest = [field_bytes for field, _, field_bytes in fields(content) if field != _MODEL_GRAPH]
    made = b"".join([*rest, bytes_field(_MODEL_GRAPH, _with_weights(whole, casts))])
    return made if len(made) <= MAX_BYTES else None


def _casts_of_weights(graph: Message) -> dict[str, str]:
    """Give the name after the cast of each weight in float16 that has one, by its name in the file."""
    given = {value.text(_VALUE_NAME) for field in (_GRAPH_INPUTS, _GRAPH_OUTPUTS) for value in graph.messages(field)}
    weights = {tensor.text(_TENSOR_NAME) for tensor in graph.messages(_GRAPH_INITIALIZERS) if _is_half(tensor)} - given
    casts: dict[str, str] = {}
    for node in graph.messages(_GRAPH_NODES):
        inputs, outputs = node.texts(_NODE_INPUTS), node.texts(_NODE_OUTPUTS)
        if _is_cast(node) and len(inputs) == len(outputs) == 1 and inputs[0] in weights and outputs[0] not in given:
            casts.setdefault(inputs[0], outputs[0])  # once: a file could ask for a thousand copies
    return casts


def _is_half(tensor: Message) -> bool:
    values = math.prod(tensor.numbers(_TENSOR_DIMENSIONS))
    stored = tensor.content(_TENSOR_BYTES)
    return tensor.numbers(_TENSOR_TYPE) == [_FLOAT16] and stored is not None and len(stored) == 2 * values


def _is_cast(node: Message) -> bool:
    if node.text(_NODE_OPERATOR) != "Cast":
        return False
    targets = [one for one in node.messages(_NODE_ATTRIBUTES) if one.text(_ATTRIBUTE_NAME) == "to"]
    return [one.numbers(_ATTRIBUTE_NUMBER) for one in targets] == [[_FLOAT32]]


def _with_weights(graph: memoryview, casts: dict[str, str]) -> bytes:
    """Write the graph with the weights after their casts, and without these casts."""
    parts: list[memoryview | bytes] = []
    for field, value, whole in fields(graph):
        part = (
            Message(value) if field in (_GRAPH_NODES, _GRAPH_INITIALIZERS) and isinstance(value, memoryview) else None
        )
        if field == _GRAPH_NODES and part and _is_cast(part):
            inputs = part.texts(_NODE_INPUTS)
            if len(inputs) == 1 and part.texts(_NODE_OUTPUTS) == [casts.get(inputs[0])]:
                continue
        if field == _GRAPH_INITIALIZERS and part and _is_half(part) and part.text(_TENSOR_NAME) in casts:
            parts.append(bytes_field(_GRAPH_INITIALIZERS, _in_float32(part, casts[part.text(_TENSOR_NAME)])))
        parts.append(whole)  # a weight too: it may be used elsewhere, and ONNX Runtime drops it if not
    return b"".join(parts)


def _in_float32(tensor: Message, name: str) -> bytes:
    dimensions = b"".join(number_field(_TENSOR_DIMENSIONS, size) for size in tensor.numbers(_TENSOR_DIMENSIONS))
    values = np.frombuffer(tensor.content(_TENSOR_BYTES) or b"", "<f2").astype("<f4").tobytes()
    kind = number_field(_TENSOR_TYPE, _FLOAT32)
    return dimensions + kind + bytes_field(_TENSOR_NAME, name.encode()) + bytes_field(_TENSOR_BYTES, values)
