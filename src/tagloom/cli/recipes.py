"""The verbs of `tagloom recipes`."""

import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tagloom.errors import TagloomError
from tagloom.terminal import open_console

if TYPE_CHECKING:
    from tagloom.recipe import Recipe

recipes_app = typer.Typer(help="List, show, copy and validate recipes.", no_args_is_help=True)

# What the groups of the list are called; a recipe that reports no figure of its paper is for everybody.
_PAPERS = {
    "": "For your own pictures",
    "ml-decoder": "Rows of ML-Decoder (Ridnik et al., 2021)",
    "query2label": "Rows of Query2Label (Liu et al., 2021)",
    "hsq": "Rows of HSQ (Yin et al., 2024)",
    "layover": "Rows of layover (Eom et al., 2022)",
    "cpsd": "Rows of CPSD (Xu et al., 2022), for tagloom distill",
}
_WIDTH = 80


@recipes_app.command("list")
def recipes_list() -> None:
    """List the recipes that ship with Tagloom: those for everybody, then one per row of the papers."""
    from rich.table import Table

    from tagloom.recipe import load_recipe, recipe_names

    console = open_console()
    recipes = [load_recipe(name) for name in recipe_names()]
    for paper, title in _PAPERS.items():
        table = Table("recipe", "px", "for" if not paper else "reported", box=None, width=_WIDTH, padding=(0, 2, 0, 0))
        table.columns[0].no_wrap = table.columns[1].no_wrap = True
        for recipe in recipes:
            if (recipe.paper if recipe.reports else "") == paper:
                said = _reported(recipe) if recipe.reports else recipe.purpose
                table.add_row(recipe.name, str(recipe.preprocess.size), said)
        console.print(f"\n[bold]{title}[/]")
        console.print(table)
    console.print("\nOne of them, headed by the command that runs it: tagloom recipes show NAME")


def _reported(recipe: "Recipe") -> str:
    """Say the first figure that a paper reports, and what it had without teachers."""
    name, value = next((name, value) for name, value in recipe.reports.items() if name != "source")
    without = recipe.reports.get("baseline_mAP")
    return f"{name.replace('_', ' ')} {value:.1f}" + (f" ({without:.1f} without)" if without else "")


@recipes_app.command("show")
def recipes_show(
    name: str,
    every: Annotated[bool, typer.Option("--all", help="Print every field, defaults included.")] = False,
) -> None:
    """Print a recipe: its first comments and all that it sets, what comes from its base included."""
    from tagloom.recipe import Recipe, load_recipe, recipe_content, recipe_text
    from tagloom.recipe.yaml_text import read_yaml, write_yaml

    if every:
        sys.stdout.write(load_recipe(name).to_yaml())
        return
    text = recipe_text(name)
    base = read_yaml(text, name).get("base")
    if base is None:
        sys.stdout.write(text)
        return
    comments = [line for line in text.splitlines() if line.startswith("#")]
    above = f"# With all that comes from its base, {base}:"
    content = recipe_content(name)
    ordered = {field.name: content[field.name] for field in fields(Recipe) if field.name in content}
    sys.stdout.write("\n".join([*comments, above, write_yaml(ordered)]))


@recipes_app.command("copy")
def recipes_copy(name: str, path: Path) -> None:
    """Copy a recipe to a file of yours, to change it there; it keeps its base."""
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
