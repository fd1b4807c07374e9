"""Options from a recipe: checked against the signature that takes them, and merged with a preset's choices.

Each part's constructor is the one place where its options, their defaults and their checks are written.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from tagloom.checks import check_choice
from tagloom.errors import RecipeError, unknown_name
from tagloom.recipe.head_parts import part_options

MAX_LAYERS = 256
"""Of one kind in a head. Options may come from a stranger's tagger folder, and every layer takes memory."""


def option_names(build: Callable[..., object], facts: Collection[str]) -> list[str]:
    """List the parameters of a constructor that a recipe may set: all but the facts that others decide."""
    return [name for name in inspect.signature(build).parameters if name not in facts]


def check_names(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuse an option that does not exist, and list those that do."""
    for name in given:
        if name not in known:
            raise RecipeError(unknown_name(what, name, known))


@dataclass(frozen=True)
class PartTable:
    """The closed table of one kind of part: by name, what makes each.

    Attributes:
        kind: What the part is called among a head's options, for example "readout".
        makers: By name, a class or function that makes the part.
        facts: Parameters of the makers that the head decides.
    """

    kind: str
    makers: Mapping[str, Callable[..., nn.Module]]
    facts: tuple[str, ...]

    def choose(self, given: object, preset: object) -> tuple[str, dict[str, Any]]:
        """Decide name and options of a part: what is given wins over what a preset chooses.

        A choice of the preset that the named part does not take is dropped; a given one is an error.

        Args:
            given: A name, or a dict of options and perhaps a name.
            preset: The same, from a preset.
        """
        options, defaults = part_options(self.kind, given), part_options(self.kind, preset)
        name = options.pop("name", defaults.pop("name", None))
        check_choice(self.kind, name, self.makers)
        known = option_names(self.makers[name], self.facts)
        for option in options:
            if option not in known:
                raise RecipeError(self._unknown(name, option, known))
        return name, {option: value for option, value in defaults.items() if option in known} | options

    def create(self, given: object, preset: object, **facts: Any) -> nn.Module:
        """Make the part that `choose` decides on; its maker gets those facts that it takes."""
        name, options = self.choose(given, preset)
        taken = inspect.signature(self.makers[name]).parameters
        return self.makers[name](**{fact: value for fact, value in facts.items() if fact in taken}, **options)

    def owners(self, option: str) -> list[str]:
        """List the parts that take an option."""
        return [name for name, make in self.makers.items() if option in option_names(make, self.facts)]

    def _unknown(self, name: str, option: str, known: list[str]) -> str:
        if owners := self.owners(option):
            return f"{self.kind} '{name}' has no option '{option}'; it belongs to {self.kind} {', '.join(owners)}."
        if not known:
            return f"{self.kind} '{name}' has no option '{option}'; it has no options."
        return unknown_name(f"option of {self.kind} '{name}'", option, known)
