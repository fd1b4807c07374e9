"""Looking at an ONNX file before it is run: a tagger folder may come from a stranger.

What is refused here, no network that Tagloom exports has: loops and branches, functions, operators outside ONNX's own
set, weights in other files, text, and tensors that claim more values than the file holds. What is left cannot run for
ever, read another file, or need more memory for its weights than a small multiple of its size. How much memory it may
use while it runs is limited where it is run.
"""

import math
import mmap
import re
from pathlib import Path

from tagloom.errors import TaggerError
from tagloom.tagger.onnx_shapes import ShapeLimits
from tagloom.tagger.protobuf import Message
from tagloom.wording import first_line, listed, shown

MAX_BYTES = 2**31  # what Protocol Buffers can hold
MAX_NODES = 20_000
MAX_DIMENSIONS = 64  # of a tensor in the file
OWN_DOMAINS = ("", "ai.onnx")

# What no tagger needs: lists of tensors, values that may be absent, and text.
_FOREIGN = re.compile(r"Sequence|Optional|String|Regex|TfIdf|LabelEncoder")

# Numbers of the fields in onnx.proto.
_MODEL_GRAPH, _MODEL_TRAINING, _MODEL_FUNCTIONS = 7, 20, 25
_GRAPH_NODES, _GRAPH_INITIALIZERS, _GRAPH_SPARSE = 1, 5, 15
_NODE_INPUTS, _NODE_OUTPUTS, _NODE_OPERATOR, _NODE_ATTRIBUTES, _NODE_DOMAIN = 1, 2, 4, 5, 7
_ATTRIBUTE_TENSOR, _ATTRIBUTE_TENSORS = 5, 10
_ATTRIBUTE_GRAPHS, _ATTRIBUTE_SPARSE = (6, 11), (22, 23)
_TENSOR_DIMENSIONS, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_EXTERNAL, _TENSOR_LOCATION = 1, 2, 8, 13, 14
_TEXT_TYPE = 8


def check_onnx(path: Path) -> None:
    """Refuse an ONNX file that holds anything that no tagger needs.

    Raises:
        TaggerError: It says what was found.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise _Refused(f"has {size:,} bytes, more than an ONNX file can have")
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # of an empty file: ValueError
        _check_model(Message(memoryview(content)))
    except _Refused as refused:
        raise TaggerError(
            f"{path}: cannot be run: it {refused}, and no network that Tagloom exports does. Export it again, or "
            "delete it to use torch."
        ) from None
    except (OSError, ValueError) as error:
        raise TaggerError(
            f"{path}: cannot be run: it is damaged, or is not an ONNX file ({first_line(error)}). Export it again, or "
            "delete it to use torch."
        ) from error


class _Refused(Exception):  # noqa: N818, it says what the file does
    """What a file holds that it must not hold."""


def _check_model(model: Message) -> None:
    if _MODEL_FUNCTIONS in model or _MODEL_TRAINING in model:
        raise _Refused("holds functions or training steps")
    graph = model.message(_MODEL_GRAPH)
    if graph is None:
        raise ValueError("no graph")
    if graph.count(_GRAPH_NODES) > MAX_NODES:
        raise _Refused(f"has {graph.count(_GRAPH_NODES):,} nodes (the most is {MAX_NODES:,})")
    if _GRAPH_SPARSE in graph:
        raise _Refused("holds sparse weights")
    limits = ShapeLimits()
    for tensor in graph.messages(_GRAPH_INITIALIZERS):
        dimensions = _check_tensor(tensor)
        limits.add_tensor(tensor.text(_TENSOR_NAME), math.prod(dimensions), len(dimensions))
    for node in graph.messages(_GRAPH_NODES):
        _check_node(node)
        operator, outputs = node.text(_NODE_OPERATOR), node.texts(_NODE_OUTPUTS)
        if not limits.add_node(operator, node.texts(_NODE_INPUTS), outputs, node.size):
            raise _Refused(f"could give {listed(map(shown, outputs), 1)} any number of dimensions ({shown(operator)})")


def _check_node(node: Message) -> None:
    operator, domain = node.text(_NODE_OPERATOR), node.text(_NODE_DOMAIN)
    if domain not in OWN_DOMAINS or _FOREIGN.search(operator):
        raise _Refused(f"uses {shown(operator)} of {shown(domain)}, which is not among the operators of a network")
    for attribute in node.messages(_NODE_ATTRIBUTES):
        if any(field in attribute for field in _ATTRIBUTE_GRAPHS):
            raise _Refused(f"has a loop or a branch ({shown(operator)})")
        if any(field in attribute for field in _ATTRIBUTE_SPARSE):
            raise _Refused("holds sparse weights")
        tensor = attribute.message(_ATTRIBUTE_TENSOR)
        for value in (*([] if tensor is None else [tensor]), *attribute.messages(_ATTRIBUTE_TENSORS)):
            _check_tensor(value)


def _check_tensor(tensor: Message) -> list[int]:
    """Refuse a tensor that the file does not hold, and give its dimensions."""
    name = shown(tensor.text(_TENSOR_NAME))
    if _TENSOR_EXTERNAL in tensor or any(tensor.numbers(_TENSOR_LOCATION)):
        raise _Refused(f"reads tensor {name} from another file")
    if _TEXT_TYPE in tensor.numbers(_TENSOR_TYPE):
        raise _Refused(f"holds text in tensor {name}")
    dimensions = tensor.numbers(_TENSOR_DIMENSIONS)
    if len(dimensions) > MAX_DIMENSIONS or min(dimensions, default=0) < 0:
        raise ValueError(f"tensor {name} has strange dimensions")
    values = math.prod(dimensions)
    if values > tensor.size:  # every value takes at least a byte
        raise _Refused(f"claims {values:,} values for tensor {name} and has {tensor.size:,} bytes for them")
    return dimensions
