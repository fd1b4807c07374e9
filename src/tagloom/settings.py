"""Filling dataclasses from plain data, and reading that data from YAML that a stranger may have written."""

import dataclasses
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from tagloom.errors import RecipeError, unknown_name

MAX_YAML_CHARACTERS = 1_000_000
T = TypeVar("T")


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
    """Check one value against its annotation. Numbers written as text (YAML reads 1e-3 so) are taken as numbers."""
    origin = get_origin(hint)
    if dataclasses.is_dataclass(hint):
        return fill(hint, value, where)  # type: ignore[arg-type]
    if origin is Literal:
        if value not in get_args(hint):
            raise RecipeError(f"{where}: " + unknown_name("value", str(value), [str(arg) for arg in get_args(hint)]))
        return value
    if origin in (Union, UnionType):
        if value is None and NoneType in get_args(hint):
            return None
        return _convert(next(arg for arg in get_args(hint) if arg is not NoneType), value, where)
    if origin is tuple:
        inner = [arg for arg in get_args(hint) if arg is not Ellipsis]
        if not isinstance(value, list | tuple) or (Ellipsis not in get_args(hint) and len(value) != len(inner)):
            raise RecipeError(f"{where}: expected a list of {len(inner)} values, found {value!r}.")
        return tuple(_convert(inner[min(place, len(inner) - 1)], entry, where) for place, entry in enumerate(value))
    if hint is float and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            raise RecipeError(f"{where}: expected a number, found {value!r}.") from None
    expected = dict if origin is dict else hint
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
        names = {int: "a whole number", bool: "true or false", str: "text", dict: "'name: value' lines"}
        raise RecipeError(f"{where}: expected {names.get(expected, expected.__name__)}, found {value!r}.")
    return value


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader without aliases (they can unfold to gigabytes) and without silently repeated keys."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            mark = self.peek_event().start_mark
            raise RecipeError(f"{mark.name}, line {mark.line + 1}: anchors and aliases are not used in recipes.")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key) for key, _ in node.value]
        for key, (key_node, _) in zip(keys, node.value, strict=True):
            if keys.count(key) > 1:
                line = key_node.start_mark.line + 1
                raise RecipeError(f"{key_node.start_mark.name}, line {line}: '{key}' is given twice.")
        return super().construct_mapping(node, deep=deep)


def read_yaml(text: str, where: str) -> Any:
    """Read plain data from YAML text.

    >>> read_yaml("epochs: 3", "an example")
    {'epochs': 3}
    """
    if len(text) > MAX_YAML_CHARACTERS:
        raise RecipeError(f"{where}: {len(text)} characters are too many for a recipe.")
    loader = _StrictLoader(text)
    loader.name = where
    try:
        return loader.get_single_data()
    except yaml.YAMLError as error:
        raise RecipeError(f"{where}: not valid YAML: {error}") from error
    except RecursionError:
        raise RecipeError(f"{where}: nested too deeply.") from None
    finally:
        loader.dispose()
