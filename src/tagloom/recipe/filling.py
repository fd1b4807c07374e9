"""Filling dataclasses from plain data, checking every name and type, and merging settings."""

import dataclasses
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tagloom.errors import RecipeError, unknown_name
from tagloom.recipe.head_parts import PARTS, part_options
from tagloom.wording import shown

T = TypeVar("T")

_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", dict: "'name: value' lines"}


def fill(kind: type[T], content: object, where: str) -> T:
    """Make a dataclass from a dict, checking every name and type at every level.

    Args:
        kind: A dataclass whose fields are dataclasses, Literals, numbers, strings, tuples or dicts, or optional ones.
        content: Plain data, usually from YAML or JSON. None counts as an empty dict.
        where: The name of the data in messages.
    """
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise RecipeError(f"{where}: expected a list of 'name: value' lines, found {type(content).__name__}.")
    hints = get_type_hints(kind)
    names = [entry.name for entry in dataclasses.fields(kind)]  # type: ignore[arg-type]
    values = {}
    for name, value in content.items():
        if name not in names:
            raise RecipeError(f"{where}: " + unknown_name("setting", shown(name).strip("'"), names))
        values[name] = _convert(hints[name], value, f"{where}: {name}")
    for entry in dataclasses.fields(kind):  # type: ignore[arg-type]
        needed = entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING
        if needed and entry.name not in values:
            raise RecipeError(f"{where}: '{entry.name}' is missing.")
    return kind(**values)


def _convert(hint: Any, value: Any, where: str) -> Any:
    """Check one value against its annotation. A whole number is accepted as a float."""
    origin = get_origin(hint)
    if dataclasses.is_dataclass(hint):
        return fill(hint, value, where)  # type: ignore[arg-type]
    if origin is Literal:
        if value not in get_args(hint):
            given = shown(value).strip("'") if isinstance(value, str) else shown(value)
            raise RecipeError(f"{where}: " + unknown_name("value", given, [str(arg) for arg in get_args(hint)]))
        return value
    if origin in (Union, UnionType):
        if value is None and NoneType in get_args(hint):
            return None
        kinds = [arg for arg in get_args(hint) if arg is not NoneType]
        return _convert(next((kind for kind in kinds if type(value) is kind), kinds[0]), value, where)
    if origin is tuple:
        inner = [arg for arg in get_args(hint) if arg is not Ellipsis]
        if not isinstance(value, list | tuple) or (Ellipsis not in get_args(hint) and len(value) != len(inner)):
            wanted = "a list" if Ellipsis in get_args(hint) else f"a list of {len(inner)} values"
            raise RecipeError(f"{where}: expected {wanted}, found {shown(value)}.")
        return tuple(_convert(inner[min(index, len(inner) - 1)], entry, where) for index, entry in enumerate(value))
    if hint is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return float(value)
    expected = dict if origin is dict else hint
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
        raise RecipeError(f"{where}: expected {_KINDS.get(expected, expected.__name__)}, found {shown(value)}.")
    if expected is dict and not all(isinstance(name, str) for name in value):
        raise RecipeError(f"{where}: every name must be text, found {shown(list(value))}.")
    return value


def merge_settings(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Give settings with some of them changed, on every level; neither dict is touched.

    Where a head or a loss gets another name, the options of the one before are dropped. A part of a head that is given
    as a plain name changes its name only.

    >>> merge_settings({"head": {"name": "gap", "options": {"dropout": 0.1}}, "seed": 3}, {"head": {"name": "hsq"}})
    {'head': {'name': 'hsq', 'options': {}}, 'seed': 3}
    >>> merge_settings({"readout": {"name": "group", "groups": 20}}, {"readout": "shared"})
    {'readout': {'name': 'shared', 'groups': 20}}
    """
    result = dict(base)
    if "options" in base and "name" in changes and changes["name"] != base.get("name"):
        result["options"] = {}
    for name, value in changes.items():
        below = result.get(name)
        if name in PARTS:
            below, value = part_options(name, below), part_options(name, value)
        result[name] = merge_settings(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result
