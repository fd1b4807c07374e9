"""A recipe: all choices of one training, as plain data. Names in it are keys of closed tables, never import paths."""

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
