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
