"""The rows of a study: variants, each a recipe with what it changes, and sweeps over the values of settings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from tagloom.errors import RecipeError
from tagloom.recipe import Recipe, load_recipe
from tagloom.recipe.yaml_text import read_yaml

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Variant:
    """One row of a study.

    Attributes:
        name: What the row is called; its runs are in folders of that name.
        recipe: A recipe: its name, its file, or itself.
        settings: What is changed in it, as `--set` takes it. Settings of `distill` bring teachers in.
        seeds: The seeds to run.
        line: The line of a chart that the row is a point of; the row's name without the values of a sweep.
        swept: The values that a sweep gave to settings.
    """

    name: str
    recipe: str | Recipe
    settings: tuple[str, ...] = ()
    seeds: tuple[int, ...] = SEEDS
    line: str = ""
    swept: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.seeds:
            raise RecipeError(f"variant {self.name!r} has no seed; give at least one.")
        object.__setattr__(self, "line", self.line or self.name)

    def folder(self, out: Path, seed: int) -> Path:
        """Name the folder of a run.

        >>> Variant("ML-Decoder 20 queries", "quick").folder(Path("runs"), 1).as_posix()
        'runs/ML-Decoder-20-queries-seed1'
        """
        return out / f"{self.name.replace(' ', '-').replace('/', '-')}-seed{seed}"


def variant_of(recipe: str | Recipe) -> Variant:
    """Make a variant of a recipe as it is, called by the recipe's name or else by its file.

    >>> variant_of("quick").name
    'quick'
    """
    loaded = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    unnamed = loaded.name == Recipe.name and isinstance(recipe, str)
    return Variant(Path(str(recipe)).stem if unnamed else loaded.name, recipe)


def sweep(variants: Sequence[Variant], values: Mapping[str, Sequence[Any]]) -> list[Variant]:
    """Make a variant for every combination of the values of some settings.

    Args:
        variants: What is varied.
        values: The values of each setting by its dotted name.

    >>> [variant.name for variant in sweep([variant_of("quick")], {"preprocess.size": [160, 224]})]
    ['quick size=160', 'quick size=224']
    """
    for name, some in values.items():
        if not some:
            raise RecipeError(f"--sweep {name}: names no value; write it as {name}=1,2,3")
    short = _short_names(list(values))
    rows = []
    for variant in variants:
        for combination in product(*values.values()):
            chosen = dict(zip(values, combination, strict=True))
            rows.append(
                replace(
                    variant,
                    name=" ".join(
                        [variant.name, *(f"{short[name]}={as_word(value)}" for name, value in chosen.items())]
                    ),
                    settings=(*variant.settings, *(as_setting(name, value) for name, value in chosen.items())),
                    line=" ".join([variant.line, *(as_word(value) for value in combination[1:])]),
                    swept={**variant.swept, **chosen},
                )
            )
    return rows


def read_sweep(text: str) -> tuple[str, list[Any]]:
    """Read a setting and its values, as `--sweep` takes them; values are YAML, separated by commas.

    >>> read_sweep("distill.kinds=[co],[co, dis]")
    ('distill.kinds', [['co'], ['co', 'dis']])
    """
    name, equals, values = text.partition("=")
    if not equals or "." not in name:
        raise RecipeError(f"--sweep {text}: write it as part.field=values, for example preprocess.size=160,224,288")
    found = read_yaml(f"[{values}]", f"--sweep {name}")
    if not isinstance(found, list):
        raise RecipeError(f"--sweep {text}: separate the values by commas, for example preprocess.size=160,224,288")
    return name.strip(), found


def check_names(variants: Sequence[Variant]) -> None:
    """Refuse two rows whose runs would share a folder."""
    folders: dict[Path, str] = {}
    for variant in variants:
        other = folders.setdefault(variant.folder(Path(), 0), variant.name)
        if other != variant.name or sum(same.name == variant.name for same in variants) > 1:
            raise RecipeError(f"two rows of the study are called {variant.name!r}: give each a name of its own.")


def as_setting(name: str, value: Any) -> str:
    """Write a setting as `--set` takes it: JSON is YAML.

    >>> as_setting("distill.kinds", ["co", "dis"])
    'distill.kinds=["co", "dis"]'
    """
    return f"{name}={json.dumps(value)}"


def as_word(value: Any) -> str:
    """Write a value of a setting in one word, for names of rows and folders.

    >>> as_word(["co", "dis"]), as_word(0.5), as_word(None)
    ('co+dis', '0.5', 'none')
    """
    if isinstance(value, list | tuple):
        return "+".join(map(as_word, value))
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _short_names(names: Sequence[str]) -> dict[str, str]:
    """Shorten dotted names to their last part, where that is clear."""
    last = [name.rpartition(".")[2] for name in names]
    return {
        name: short if last.count(short) == 1 and short != "name" else name
        for name, short in zip(names, last, strict=True)
    }
