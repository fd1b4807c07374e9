"""Reading plain data from untrusted YAML, and writing it back."""

import re
from collections.abc import Callable
from typing import Any

import yaml

from tagloom.errors import RecipeError
from tagloom.recipe.plain_data import check_plain
from tagloom.wording import shown

MAX_YAML_CHARACTERS = 300_000
MAX_NUMBER_CHARACTERS = 100

# What PyYAML raises, without a class of its own, for a date in month 13, `!!int ''`, `!!bool x` or `!!timestamp x`.
_RAISED_BY_VALUES = (ValueError, ArithmeticError, LookupError, AttributeError, TypeError)


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses aliases (they can expand to gigabytes) and repeated keys."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise RecipeError(f"{mark.name}, line {mark.line + 1}: anchors and aliases are not allowed in recipes.")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node)
            if not isinstance(key, str | int | float):
                break  # not a name: `fill` will say so
            if key in seen:
                line = key_node.start_mark.line + 1
                raise RecipeError(f"{key_node.start_mark.name}, line {line}: {shown(key)} is given twice.")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _number(construct: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Refuse numbers of very many digits: reading one in base 60 takes time that grows with its length squared."""

    def checked(loader: _StrictLoader, node: yaml.ScalarNode) -> Any:
        if len(node.value) > MAX_NUMBER_CHARACTERS:
            raise ValueError(f"a number of {len(node.value)} digits")
        return construct(loader, node)

    return checked


_StrictLoader.add_constructor("tag:yaml.org,2002:int", _number(yaml.SafeLoader.construct_yaml_int))
_StrictLoader.add_constructor("tag:yaml.org,2002:float", _number(yaml.SafeLoader.construct_yaml_float))


class _StrictDumper(yaml.SafeDumper):
    """SafeDumper that quotes text which `_StrictLoader` would read as a number."""


# YAML 1.1 reads 1e-3 as text, because it has no dot; everybody means the number.
for _side in (_StrictLoader, _StrictDumper):
    _side.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789"))
_StrictDumper.add_representer(tuple, yaml.SafeDumper.represent_list)


def write_yaml(content: Any) -> str:
    """Write plain data as YAML that `read_yaml` reads back; tuples become lists.

    >>> print(write_yaml({"epochs": 3, "rate": "1e-3"}), end="")
    epochs: 3
    rate: '1e-3'
    """
    # Characters beyond ASCII are escaped, because PyYAML loses some line breaks among them otherwise.
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
        content = loader.get_single_data()
    except (yaml.YAMLError, *_RAISED_BY_VALUES) as error:
        raise RecipeError(f"{where}: not valid YAML: {error}") from error
    except RecursionError:
        raise RecipeError(f"{where}: nested too deeply.") from None
    check_plain(content, where)
    return content
