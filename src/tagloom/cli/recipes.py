"""The verbs of `tagloom recipes`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tagloom.errors import TagloomError
from tagloom.terminal import open_console

recipes_app = typer.Typer(help="List, show, copy and validate recipes.", no_args_is_help=True)


@recipes_app.command("list")
def recipes_list() -> None:
    """List the recipes that ship with Tagloom."""
    from rich.table import Table

    from tagloom.recipe import load_recipe, recipe_names

    table = Table("recipe", "backbone", "head", "for")
    for name in recipe_names():
        recipe = load_recipe(name)
        table.add_row(name, recipe.backbone.name, recipe.head.name, recipe.purpose)
    open_console().print(table)


@recipes_app.command("show")
def recipes_show(
    name: str,
    every: Annotated[bool, typer.Option("--all", help="Print every field, defaults included.")] = False,
) -> None:
    """Print a recipe with its comments."""
    from tagloom.recipe import load_recipe, recipe_text

    sys.stdout.write(load_recipe(name).to_yaml() if every else recipe_text(name))


@recipes_app.command("copy")
def recipes_copy(name: str, path: Path) -> None:
    """Copy a recipe to a file of yours, to change it there."""
    from tagloom.recipe import recipe_text

    text = recipe_text(name)
    if path.exists():
        raise TagloomError(f"{path}: is there already; name another file.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    open_console().print(f"Written to {path}. Change it, then: tagloom train DATA --recipe {path}")


@recipes_app.command("validate")
def recipes_validate(path: str) -> None:
    """Check a recipe: every name, type and range in it."""
    from tagloom.recipe import load_recipe

    recipe = load_recipe(path)
    console = open_console()
    try:
        from tagloom.training.plan import check_options
    except ModuleNotFoundError:
        console.print("[yellow]The options of head and loss are not checked: that needs 'tagloom\\[train]'.[/]")
    else:
        check_options(recipe)
    console.print(f"[green]{path} is a valid recipe[/] ({recipe.backbone.name} + {recipe.head.name}).")
