"""`classes.yaml` next to a table: its classes as a tree, each with the classes below it.

animal: [dog, cat]
vehicle:
  car:
  truck: [pickup, lorry]
person:
"""

from pathlib import Path
from typing import NamedTuple

from tagloom.data.label_tree import MAX_LEVELS
from tagloom.data.regular_file import is_regular, read_regular
from tagloom.errors import DataError, RecipeError
from tagloom.recipe.yaml_text import MAX_YAML_CHARACTERS, read_yaml
from tagloom.wording import shown

TREE_FILE = "classes.yaml"


class ClassTree(NamedTuple):
    """Classes in the order of the file, and the parent of each that has one."""

    classes: tuple[str, ...]
    parents: dict[str, str]
    path: Path


def find_class_tree(table: Path) -> ClassTree | None:
    """Read the `classes.yaml` next to a table, or in it if it is a folder; None without one."""
    path = (table if table.is_dir() else table.parent) / TREE_FILE
    return read_class_tree(path) if is_regular(path) else None


def read_class_tree(path: Path) -> ClassTree:
    """Read a tree of classes. An error begins with the path."""
    try:
        data = read_regular(path, 4 * MAX_YAML_CHARACTERS)
        content = read_yaml(data.decode("utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}). Save it as UTF-8.") from error
    except RecipeError as error:
        raise DataError(str(error)) from error
    parents: dict[str, str] = {}
    classes: dict[str, None] = {}

    def add(name: object, parent: str | None, below: object, depth: int) -> None:
        if not isinstance(name, str | int) or isinstance(name, bool) or not str(name).strip():
            raise DataError(f"{path}: {shown(name)} is not the name of a class. Put it in quotes.")
        if (plain := str(name).strip()) in classes:
            raise DataError(f"{path}: class {shown(plain)} is there twice. A class has one place in the tree.")
        if depth > MAX_LEVELS:
            raise DataError(f"{path}: more than {MAX_LEVELS} levels.")
        classes[plain] = None
        if parent is not None:
            parents[plain] = parent
        walk(below, plain, depth + 1)

    def walk(below: object, parent: str | None, depth: int) -> None:
        if isinstance(below, dict):
            for name, deeper in below.items():
                add(name, parent, deeper, depth)
        elif isinstance(below, list):
            for entry in below:
                if isinstance(entry, dict):
                    walk(entry, parent, depth)
                else:
                    add(entry, parent, None, depth)
        elif below is not None:
            raise DataError(
                f"{path}: below {shown(parent or '')} stands {shown(below)}. Write the classes below a class as a list."
            )

    walk(content, None, 1)
    if not classes:
        raise DataError(f"{path}: no classes. Write each with the classes below it, such as animal: [dog, cat].")
    return ClassTree(tuple(classes), parents, path)
