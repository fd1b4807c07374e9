"""The parts of a query head in a recipe: `queries`, `decoder` and `readout`, each a name or a name with options.

Earlier recipes and tagger folders wrote the options of all parts side by side (`groups: 20`). `nest_options` gives each
to the part that uses it (`readout: {groups: 20}`), so that everything else knows one form only.

Files hold the options that somebody set, and defaults change. `pin_first_defaults` writes the defaults of the first
format into what a file of that format left out, so that an old tagger stays what it was.
"""

from collections.abc import Mapping
from typing import Any

from tagloom.errors import RecipeError
from tagloom.wording import shown

PARTS = ("queries", "decoder", "readout")

# The heads that were written flat, and what the options of their parts were called. Nothing new is added here.
_FLAT_HEADS = (
    *("query", "ml-decoder", "ml-decoder-small", "ml-decoder-words", "ml-decoder-words-grouped"),
    *("transformer-decoder", "query2label", "hsq", "tf"),
)
_FLAT_OPTIONS = {
    "attention_heads": ("decoder", "attention_heads"),
    "feed_forward": ("decoder", "feed_forward"),
    "encoder_layers": ("decoder", "encoder_layers"),
    "decoder_layers": ("decoder", "layers"),
    "queries_as_position": ("decoder", "queries_as_position"),
    "positions": ("decoder", "positions"),
    "dropout": ("decoder", "dropout"),
    "groups": ("readout", "groups"),
    "grouping": ("readout", "grouping"),
    "grouping_seed": ("readout", "grouping_seed"),
    "shared_experts": ("readout", "shared_experts"),
    "task_experts": ("readout", "task_experts"),
    "shared_input": ("readout", "shared_input"),
    "layer_widths": ("readout", "layer_widths"),
    "gate_hidden": ("readout", "gate_hidden"),
    "classifier_hidden": ("readout", "classifier_hidden"),
    "readout_dropout": ("readout", "dropout"),
}

# Defaults that differed while tagger folders and plans had format 1. Nothing new is added here: another change of a
# default needs another format.
_FIRST_SHARED_INPUT = "shared"
_FIRST_TF: dict[str, dict[str, Any]] = {
    "queries": {"name": "learnable"},
    "decoder": {"name": "tokens", "encoder_layers": 3, "attention_heads": 4, "feed_forward": None, "positions": True},
    "readout": {"name": "per-class"},
}
_FIRST_TOKENS = {"head_width": None, "attention_bias": True, "activation": "relu", "norm_first": False}


def nest_options(head: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Give the options of a head with those of its parts under `queries`, `decoder` and `readout`.

    A flat option wins over a nested one: shipped recipes are nested, so it is the flat one that somebody set last. A
    part of which only the name is given is written as that name. Options of other heads stay as they are.

    >>> nest_options("ml-decoder", {"width": 256, "groups": 20, "readout": "shared", "decoder": {"layers": 2}})
    {'width': 256, 'decoder': {'layers': 2}, 'readout': {'name': 'shared', 'groups': 20}}
    >>> nest_options("gap", {"dropout": 0.1})
    {'dropout': 0.1}
    """
    parts = {part: part_options(part, options.get(part)) for part in PARTS}
    flat = _FLAT_OPTIONS if head in _FLAT_HEADS else {}
    tokens = parts["decoder"].get("name", "tokens" if head == "tf" else None) == "tokens"
    for name, (part, option) in flat.items():
        # None used to mean "left out", except here, where it means four times the width.
        absent = name not in options or (options[name] is None and name != "feed_forward")
        # What the decoder "tokens" does not have could be switched off.
        off = tokens and name in ("decoder_layers", "queries_as_position") and not options.get(name)
        if not absent and not off:
            parts[part][option] = options[name]
    own = {name: value for name, value in options.items() if name not in flat and name not in PARTS}
    return own | {part: _shortest(chosen) for part, chosen in parts.items() if chosen}


def pin_first_defaults(head: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Write the defaults of format 1 into the options of a head from a file of that format, where they changed since.

    >>> pin_first_defaults("hsq", {"width": 16})
    {'width': 16, 'readout': {'shared_input': 'shared'}}
    >>> pin_first_defaults("ml-decoder", {"groups": 20})
    {'readout': {'groups': 20}}
    """
    nested = nest_options(head, options)
    parts = {part: part_options(part, nested.get(part)) for part in PARTS}
    if head == "tf":
        parts = {part: _FIRST_TF[part] | chosen for part, chosen in parts.items()}
        if parts["decoder"]["name"] == "tokens":
            parts["decoder"] = _FIRST_TOKENS | parts["decoder"]
    readout = parts["readout"].get("name", "hybrid-sharing" if head == "hsq" else None)
    if readout == "hybrid-sharing":
        parts["readout"].setdefault("shared_input", _FIRST_SHARED_INPUT)
    return nested | {part: _shortest(chosen) for part, chosen in parts.items() if chosen}


def part_options(part: str, given: object) -> dict[str, Any]:
    """Give a part as a dict of its name and options, of which either may be absent.

    >>> part_options("readout", "group"), part_options("readout", {"groups": 20}), part_options("readout", None)
    ({'name': 'group'}, {'groups': 20}, {})
    """
    if given is None:
        return {}
    if isinstance(given, str):
        return {"name": given}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise RecipeError(
            f"head option {part} is {shown(given)}; write a name, or a name with options: "
            f"{part}: {{name: NAME, OPTION: VALUE}}"
        )
    return dict(given)


def _shortest(chosen: dict[str, Any]) -> str | dict[str, Any]:
    """Write a part without options as its name, so that equal choices are equal data."""
    return chosen["name"] if list(chosen) == ["name"] else chosen
