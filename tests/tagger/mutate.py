"""Hostile versions of files: random damage to bytes, and odd values in plain data."""

import copy
import json
import random
from typing import Any


def damaged(rng: random.Random, content: bytes) -> bytes:
    """Flip, cut, copy or overwrite some bytes, once or a few times."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        start = rng.randrange(len(data) + 1)
        if rng.random() < 0.7:  # most of a file is weights; what decides is often at its beginning
            start = min(start, rng.randrange(4096))
        length = rng.choice((1, 1, 2, 8, 100))
        piece = data[start : start + length]
        match rng.randrange(6):
            case 0 if piece:
                data[start] ^= 1 << rng.randrange(8)
            case 1:
                del data[start : start + length]
            case 2:
                data[start:start] = piece
            case 3:
                data[start : start + length] = rng.randbytes(len(piece))
            case 4:
                data[start : start + length] = bytes([rng.choice((0, 0x7F, 0x80, 0xFF))]) * len(piece)
            case _ if rng.random() < 0.2:
                del data[start:]
    return bytes(data)


def odd(rng: random.Random) -> Any:
    """Give a value that nobody expects."""
    nested: Any = []
    for _ in range(rng.choice((2, 40, 900))):
        nested = [nested] if rng.random() < 0.5 else {"a": nested}
    values = [
        None,
        True,
        False,
        0,
        -1,
        1,
        7,
        2**31,
        2**63,
        10**30,
        -(10**400),
        0.5,
        -0.0,
        1e308,
        float("nan"),
        float("inf"),
    ]
    texts = [
        "",
        " ",
        "x" * 300,
        "x" * 100_000,
        "\0",
        "../../etc/passwd",
        "/dev/zero",
        "a\nb",
        "\x1b[31m",
        "\ud800",
        "eva02_enormous_patch14_clip_224",
    ]
    return rng.choice(
        [*values, *texts, [], {}, nested, [[]] * 100, list(range(1000)), {"name": "x"}, {"": None}, ["a", "a"]]
    )


def changed(rng: random.Random, content: Any) -> Any:
    """Replace, remove or add a few values anywhere in plain data."""
    content = copy.deepcopy(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        parent, name = content, None
        while isinstance(parent, dict | list) and parent:
            name = rng.choice(list(parent)) if isinstance(parent, dict) else rng.randrange(len(parent))
            if not isinstance(parent[name], dict | list) or not parent[name] or rng.random() < 0.25:
                break
            parent = parent[name]
        if not isinstance(parent, dict | list) or name is None:
            return content
        action = rng.random()
        if action < 0.7:
            parent[name] = odd(rng)
        elif action < 0.85:
            del parent[name]
        elif isinstance(parent, dict):
            parent[rng.choice(("new", "name", "options", "places", "", "words"))] = odd(rng)
        else:
            parent.insert(name, odd(rng))
    return content


def hostile_json(rng: random.Random, content: Any) -> bytes:
    """Write plain data as JSON after changing values, bytes, or both."""
    if rng.random() < 0.75:
        content = changed(rng, content)
    text = json.dumps(content, ensure_ascii=rng.random() < 0.9).encode("utf-8", "replace")
    return damaged(rng, text) if rng.random() < 0.3 else text


def other_graph(rng: random.Random, content: bytes) -> bytes:
    """Change operators, attributes, numbers and connections of an ONNX file, which stays readable."""
    import onnx

    model = onnx.load_from_string(content)
    graph = model.graph
    operators = sorted({schema.name for schema in onnx.defs.get_all_schemas()})
    sizes = (0, 1, -1, 2, 3, 64, 5000, 2**20, 2**31, 2**40, 2**62, -(2**63))
    for _ in range(rng.choice((1, 1, 2, 4))):
        node = rng.choice(graph.node)
        match rng.randrange(6):
            case 0:
                node.op_type = rng.choice(operators)
            case 1:
                node.input.append(
                    rng.choice([entry for other in graph.node for entry in (*other.input, *other.output)])
                )
            case 2:
                chosen = rng.choice(("axis", "axes", "to", "perm", "strides", "pads", "keepdims", "group", "dilations"))
                value = rng.choice((rng.choice(sizes), [rng.choice(sizes) for _ in range(rng.randrange(5))] or [1]))
                kept = [attribute for attribute in node.attribute if attribute.name != chosen]
                del node.attribute[:]
                node.attribute.extend([*kept, onnx.helper.make_attribute(chosen, value)])
            case 3:
                names = [tensor.name for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.INT64]
                values = [rng.choice(sizes) for _ in range(rng.randrange(1, 5))]
                graph.initializer.append(
                    onnx.helper.make_tensor(f"sizes{len(names)}", onnx.TensorProto.INT64, [len(values)], values)
                )
                made = rng.choice(("ConstantOfShape", "Expand", "Tile", "Reshape", "Resize", "Pad", "Range", "OneHot"))
                before = [] if made == "ConstantOfShape" else [node.input[0]]
                node.CopyFrom(onnx.helper.make_node(made, [*before, f"sizes{len(names)}"], list(node.output)))
            case 4:
                tensor = rng.choice(graph.initializer)
                tensor.dims[:] = [rng.choice(sizes) for _ in range(rng.randrange(4))]
            case _:
                dimension = rng.choice(rng.choice((*graph.input, *graph.output)).type.tensor_type.shape.dim)
                dimension.dim_value = rng.choice(sizes)
    return bytes(model.SerializeToString())
