"""An ONNX file with its first output alone: what only the others need is then never computed.

ONNX Runtime computes every output of a file, also those that nobody asks for, and nodes that no output needs. Its
option to leave them out (`only_execute_path_to_fetches`) costs more than it saves.
"""

import mmap
from pathlib import Path

from tagloom.tagger.protobuf import Message, bytes_field, fields

# Numbers of the fields in onnx.proto.
_MODEL_GRAPH, _GRAPH_NODES, _GRAPH_OUTPUTS = 7, 1, 12
_NODE_INPUTS, _NODE_OUTPUTS, _VALUE_NAME = 1, 2, 1


def first_output_alone(path: Path) -> tuple[bytes | None, tuple[str, ...]]:
    """Give the content of a file without its further outputs, None if it has none, and the names of all its outputs.

    Raises:
        ValueError: If it is not an ONNX file.
        OSError: If it cannot be read.
    """
    with path.open("rb") as file:
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    graph = Message(content).message(_MODEL_GRAPH)
    if graph is None:
        raise ValueError("no graph")
    names = tuple(output.text(_VALUE_NAME) for output in graph.messages(_GRAPH_OUTPUTS))
    if len(names) < 2:
        return None, names
    whole = b"".join(value for field, value, _ in fields(content) if field == _MODEL_GRAPH)  # type: ignore[misc]
    others = [field_bytes for field, _, field_bytes in fields(content) if field != _MODEL_GRAPH]
    return b"".join([*others, bytes_field(_MODEL_GRAPH, _pruned(memoryview(whole), names[0]))]), names


def _pruned(graph: memoryview, output: str) -> bytes:
    """Keep of a graph one output, and the nodes that it needs. A node stands after those that make its inputs."""
    needed = {output}
    kept: list[memoryview] = []
    for field, value, whole in reversed(list(fields(graph))):
        if field in (_GRAPH_NODES, _GRAPH_OUTPUTS) and isinstance(value, memoryview):
            part = Message(value)
            makes = part.texts(_NODE_OUTPUTS) if field == _GRAPH_NODES else [part.text(_VALUE_NAME)]
            if needed.isdisjoint(makes) if field == _GRAPH_NODES else makes != [output]:
                continue
            if field == _GRAPH_NODES:
                needed.update(part.texts(_NODE_INPUTS))
        kept.append(whole)
    return b"".join(reversed(kept))
