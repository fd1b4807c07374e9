"""Filling dataclasses from plain data, and reading that data from YAML that a stranger may have written."""

import dataclasses
import re
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from tagloom.errors import RecipeError, unknown_name

MAX_YAML_CHARACTERS = 1_000_000
T = TypeVar("T")

_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", dict: "'name: value' lines"}


def fill(kind: type[T], content: object, where: str) -> T:
    """Make a dataclass from a dict, checking every name and type on the way down.

    Args:
        kind: A dataclass whose fields are dataclasses, Literals, numbers, strings, dicts or optional ones of these.
        content: Plain data, usually from YAML or JSON. None counts as an empty dict.
        where: What the data is called in errors.
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
            raise RecipeError(f"{where}: " + unknown_name("setting", str(name), names))
        values[name] = _convert(hints[name], value, f"{where}: {name}")
    return kind(**values)


def _convert(hint: Any, value: Any, where: str) -> Any:
    """Check one value against its annotation; a whole number will do where any number is wanted."""
    origin = get_origin(hint)
    if dataclasses.is_dataclass(hint):
        return fill(hint, value, where)  # type: ignore[arg-type]
    if origin is Literal:
        if value not in get_args(hint):
            given = value if isinstance(value, str) else _shown(value)
            raise RecipeError(f"{where}: " + unknown_name("value", given, [str(arg) for arg in get_args(hint)]))
        return value
    if origin in (Union, UnionType):
        if value is None and NoneType in get_args(hint):
            return None
        return _convert(next(arg for arg in get_args(hint) if arg is not NoneType), value, where)
    if origin is tuple:
        inner = [arg for arg in get_args(hint) if arg is not Ellipsis]
        if not isinstance(value, list | tuple) or (Ellipsis not in get_args(hint) and len(value) != len(inner)):
            wanted = "a list" if Ellipsis in get_args(hint) else f"a list of {len(inner)} values"
            raise RecipeError(f"{where}: expected {wanted}, found {_shown(value)}.")
        return tuple(_convert(inner[min(place, len(inner) - 1)], entry, where) for place, entry in enumerate(value))
    if hint is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return float(value)
    expected = dict if origin is dict else hint
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
        raise RecipeError(f"{where}: expected {_KINDS.get(expected, expected.__name__)}, found {_shown(value)}.")
    if expected is dict and not all(isinstance(name, str) for name in value):
        raise RecipeError(f"{where}: every name must be text, found {_shown(list(value))}.")
    return value


def lay_over(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Give settings with some of them changed, on every level; neither dict is touched.

    Where a part with `options` (a head, a loss) gets another name, the options of the one before are dropped.

    >>> lay_over({"head": {"name": "gap", "options": {"dropout": 0.1}}, "seed": 3}, {"head": {"name": "hsq"}})
    {'head': {'name': 'hsq', 'options': {}}, 'seed': 3}
    """
    result = dict(base)
    if "options" in base and "name" in changes and changes["name"] != base.get("name"):
        result["options"] = {}
    for name, value in changes.items():
        below = result.get(name)
        result[name] = lay_over(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def _shown(value: object) -> str:
    """Give a stranger's value for a message, never longer than a line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader without aliases (they can unfold to gigabytes) and without silently repeated keys."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise RecipeError(f"{mark.name}, line {mark.line + 1}: anchors and aliases are not used in recipes.")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node)
            if not isinstance(key, str | int | float):
                break  # no name at all: the reader that comes next says so
            if key in seen:
                line = key_node.start_mark.line + 1
                raise RecipeError(f"{key_node.start_mark.name}, line {line}: {_shown(key)} is given twice.")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


class _StrictDumper(yaml.SafeDumper):
    """SafeDumper that knows what `_StrictLoader` takes for a number, so that it quotes text that looks like one."""


# YAML 1.1 takes 1e-3 for text, since it has no dot; everybody means the number.
for _side in (_StrictLoader, _StrictDumper):
    _side.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789"))
_StrictDumper.add_representer(tuple, yaml.SafeDumper.represent_list)


def write_yaml(content: Any) -> str:
    """Write plain data as YAML that `read_yaml` reads back; tuples become lists.

    >>> print(write_yaml({"epochs": 3, "rate": "1e-3"}), end="")
    epochs: 3
    rate: '1e-3'
    """
    # Letters beyond ASCII are escaped: PyYAML loses some line breaks among them when it writes them as they are.
    return str(yaml.dump(content, Dumper=_StrictDumper, sort_keys=False))


def read_yaml(text: str, where: str) -> Any:
    """Read plain data from YAML text.

    >>> read_yaml("epochs: 3", "an example")
    {'epochs': 3}
    """
    if len(text) > MAX_YAML_CHARACTERS:
        raise RecipeError(f"{where}: {len(text)} characters are too many for a recipe.")
    try:
        loader = _StrictLoader(text)
        loader.name = where
        return loader.get_single_data()
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date in month 13, a number of 5,000 digits
        raise RecipeError(f"{where}: not valid YAML: {error}") from error
    except RecursionError:
        raise RecipeError(f"{where}: nested too deeply.") from None
