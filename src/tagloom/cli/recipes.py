"""`tagloom recipes` and its verbs: list, show, copy, validate."""

import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tagloom.errors import TagloomError
from tagloom.terminal import open_console, print_line
from tagloom.wording import printable

if TYPE_CHECKING:
    from tagloom.recipe import Recipe

recipes = typer.Typer(name="recipes", help="List, show, copy and validate recipes.", no_args_is_help=True)

# The groups of the list. A recipe that reports no result of its paper is for everybody.
_PAPERS = {
    "": "For your own pictures",
    "ml-decoder": "Rows of ML-Decoder (Ridnik et al., 2021)",
    "query2label": "Rows of Query2Label (Liu et al., 2021)",
    "hsq": "Rows of HSQ (Yin et al., 2024)",
    "layover": "Rows of layover (Eom et al., 2022)",
    "cpsd": "Rows of CPSD (Xu et al., 2022), for tagloom distill",
}
_WIDTH = 80

Name = Annotated[str, typer.Argument(help="A recipe's name, from tagloom recipes list.")]


@recipes.command("list")
def list_recipes() -> None:
    """List the recipes that ship with Tagloom: those for your own data, then one per row of the papers."""
    from rich.table import Table

    from tagloom.recipe import load_recipe, recipe_names

    console = open_console()
    shipped = [load_recipe(name) for name in recipe_names()]
    for paper, title in _PAPERS.items():
        table = Table("recipe", "px", "for" if not paper else "reported", box=None, width=_WIDTH, padding=(0, 2, 0, 0))
        table.columns[0].no_wrap = table.columns[1].no_wrap = True
        for recipe in shipped:
            if (recipe.paper if recipe.reports else "") == paper:
                about = _reported(recipe) if recipe.reports else recipe.purpose
                table.add_row(recipe.name, str(recipe.preprocess.size), about)
        console.print(f"\n[bold]{title}[/]", markup=True)
        console.print(table)
    console.print("\nSee a recipe, and the command that runs it: tagloom recipes show NAME")


def _reported(recipe: "Recipe") -> str:
    """Give the first result that a paper reports, and the result without teachers if there is one."""
    figures = [(name, value) for name, value in recipe.reports.items() if name != "source"]
    if not figures:
        return f"a curve ({recipe.reports['source']})"
    name, value = figures[0]
    without = recipe.reports.get("baseline_mAP")
    return f"{name.replace('_', ' ')} {value:.1f}" + (f" ({without:.1f} without)" if without else "")


@recipes.command("show")
def show_recipe(
    name: Name,
    every: Annotated[bool, typer.Option("--all", help="Print every field, defaults included.")] = False,
) -> None:
    """Print a recipe with the command that runs it, including all settings it takes from its base.

    Example: tagloom recipes show quick
    """
    from tagloom.recipe import Recipe, load_recipe, recipe_content, recipe_text
    from tagloom.recipe.yaml_text import read_yaml, write_yaml

    if every:
        _write(load_recipe(name).to_yaml())
        return
    text = recipe_text(name)
    base = read_yaml(text, name).get("base")
    if base is None:
        _write(text)
        return
    comments = [line for line in text.splitlines() if line.startswith("#")]
    above = f"# With all settings of its base, {base}:"
    content = recipe_content(name)
    ordered = {field.name: content[field.name] for field in fields(Recipe) if field.name in content}
    _write("\n".join([*comments, above, write_yaml(ordered)]))


def _write(text: str) -> None:
    """Write a recipe as it is, so that it can be saved; but a stranger's must not steer the terminal."""
    sys.stdout.write("\n".join(map(printable, text.split("\n"))))


@recipes.command("copy")
def copy_recipe(name: Name, path: Annotated[Path, typer.Argument(help="The .yaml file to write.")]) -> None:
    """Copy a recipe to a file of your own, to change it there. It keeps its base.

    Example: tagloom recipes copy quick mine.yaml
    """
    from tagloom.recipe import recipe_text

    text = recipe_text(name)
    if path.exists():
        raise TagloomError(f"{path}: already exists; name another file.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print_line(open_console(), f"Written to {path}. Change it, then: tagloom train DATA --recipe {path}")


@recipes.command("validate")
def validate_recipe(path: Annotated[str, typer.Argument(help="A .yaml file, or a recipe's name.")]) -> None:
    """Check every name, type and range in a recipe."""
    from tagloom.recipe import load_recipe

    recipe = load_recipe(path)
    console = open_console()
    try:
        from tagloom.training.plan import check_options
    except ModuleNotFoundError:
        console.print("The options of head and loss are not checked: that needs 'tagloom[train]'.", style="yellow")
    else:
        check_options(recipe)
    print_line(console, f"{path} is a valid recipe ({recipe.backbone.name} + {recipe.head.name}).")
