"""The recipes that ship with Tagloom, one file each; `tagloom recipes list` shows them."""

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable


@cache
def shipped_recipes() -> dict[str, Traversable]:
    """Find the files of all recipes by name. The recipes of a paper are in a folder of their own.

    >>> "quick" in shipped_recipes()
    True
    """
    found: dict[str, Traversable] = {}
    folders = [resources.files(__name__)]
    while folders:
        for entry in folders.pop().iterdir():
            if entry.is_dir():
                folders.append(entry)
            elif entry.name.endswith(".yaml"):
                found[entry.name.removesuffix(".yaml")] = entry
    return dict(sorted(found.items()))
