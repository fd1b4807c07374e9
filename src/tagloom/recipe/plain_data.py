"""Plain data from files that anybody may have written: JSON, and what YAML gives. Nothing odd gets past this point."""

import json
import math
from pathlib import Path
from typing import Any

from tagloom.errors import RecipeError
from tagloom.wording import shown

MAX_DEPTH = 32
MAX_WHOLE = 2**63 - 1


def read_json(path: Path, max_bytes: int) -> Any:
    """Read plain data from a JSON file.

    Raises:
        RecipeError: If the file cannot be read, is larger than `max_bytes`, or holds anything but plain data. The
            message begins with the path.
    """
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        raise RecipeError(f"{path}: cannot be read ({error}).") from error
    if len(content) > max_bytes:
        raise RecipeError(f"{path}: larger than {max_bytes} bytes, so Tagloom did not write it.")
    try:
        found = json.loads(content.decode("utf-8"))
    except RecursionError:
        raise RecipeError(f"{path}: is nested too deeply; {MAX_DEPTH} levels are the most.") from None
    except ValueError as error:
        raise RecipeError(f"{path}: is not valid JSON ({error}).") from error
    check_plain(found, str(path))
    return found


def check_plain(content: object, where: str) -> None:
    """Refuse anything but text, finite numbers, true, false, nothing, and lists and dicts of these, not too deep.

    So what was read can be copied, compared and written again without surprises.

    >>> check_plain({"epochs": 3, "shares": [0.5, None]}, "an example")
    >>> check_plain({"shares": [0.5, float("nan")]}, "an example")
    Traceback (most recent call last):
    tagloom.errors.RecipeError: an example: shares.1 is nan; it must be a finite number.
    """
    try:
        _check(content, MAX_DEPTH)
    except _Odd as odd:
        name = ".".join(map(str, odd.names[::-1]))
        raise RecipeError(f"{where}: {shown(name).strip(chr(39)) or 'the whole of it'} is {odd.finding}") from None


class _Odd(Exception):  # noqa: N818, it is about a value
    """What is odd about a value, and the names that lead to it, the innermost first."""

    def __init__(self, finding: str) -> None:
        super().__init__(finding)
        self.finding = finding
        self.names: list[object] = []


def _check(value: object, depth: int) -> None:
    if isinstance(value, dict | list):
        if depth == 0:
            raise _Odd(f"nested too deeply; {MAX_DEPTH} levels are the most.")
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            try:
                _check(name, 0)
                _check(inner, depth - 1)
            except _Odd as odd:
                odd.names.append(name)
                raise
    elif isinstance(value, float) and not math.isfinite(value):
        raise _Odd(f"{value}; it must be a finite number.")
    elif isinstance(value, int) and abs(value) > MAX_WHOLE:
        raise _Odd(f"{shown(value)}; it must fit in 64 bits.")
    elif value is not None and not isinstance(value, int | float | str):
        raise _Odd(f"a {type(value).__name__}, {shown(value)}; write it as text, in quotes.")
