"""A recipe: all choices of one training, as plain data. Names in it are keys of closed tables, never import paths.

The names below load on first use: whoever only predicts needs no YAML and none of the settings of a training.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tagloom.recipe.distillation import Distillation
    from tagloom.recipe.loading import (
        change_settings,
        for_task,
        load_recipe,
        override,
        read_settings,
        recipe_content,
        recipe_from_dict,
        recipe_names,
        recipe_text,
    )
    from tagloom.recipe.pictures import Augment, Preprocess
    from tagloom.recipe.recipe import Recipe

__all__ = [
    "Augment",
    "Distillation",
    "Preprocess",
    "Recipe",
    "change_settings",
    "for_task",
    "load_recipe",
    "override",
    "read_settings",
    "recipe_content",
    "recipe_from_dict",
    "recipe_names",
    "recipe_text",
]

_HOMES = {"Augment": "pictures", "Distillation": "distillation", "Preprocess": "pictures", "Recipe": "recipe"}


def __getattr__(name: str) -> Any:
    """Import a name on first use; functions are in `loading`."""
    if name not in __all__:
        raise AttributeError(f"module 'tagloom.recipe' has no attribute '{name}'")
    return getattr(import_module(f"tagloom.recipe.{_HOMES.get(name, 'loading')}"), name)
