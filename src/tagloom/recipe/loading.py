"""Finding and reading recipes: by name or from a file, on top of a base, with settings changed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tagloom.errors import RecipeError, unknown_name
from tagloom.files import is_file
from tagloom.recipe.filling import fill, merge_settings
from tagloom.recipe.head_parts import PARTS, nest_options, part_options
from tagloom.recipe.names import SHOWN_METRICS
from tagloom.recipe.recipe import Recipe
from tagloom.recipe.shipped import shipped_recipes
from tagloom.recipe.yaml_text import MAX_YAML_CHARACTERS, read_yaml

# What describes one recipe only; everything else is inherited from its base.
_OWN = ("name", "purpose", "reports")


def recipe_from_dict(content: object, where: str = "recipe") -> Recipe:
    """Fill a recipe from plain data; a wrong name or value is an error that says where and what is right."""
    return fill(Recipe, content, where)


def load_recipe(name_or_path: str) -> Recipe:
    """Read a recipe and its base: by name if it ships with Tagloom, else from a YAML file."""
    return recipe_from_dict(recipe_content(name_or_path), name_or_path)


def recipe_content(name_or_path: str) -> Any:
    """Give what a recipe sets, as plain data: its own settings merged into those of its base, without defaults.

    A recipe may say `base: NAME`, the name of one that ships with Tagloom. It then inherits all settings that it does
    not set itself, except those that describe the base only (name, purpose, reports).
    """
    if name_or_path in recipe_names():
        return _over_base(read_yaml(recipe_text(name_or_path), name_or_path), name_or_path, (name_or_path,))
    path = Path(name_or_path)
    if path.suffix.lower() not in (".yaml", ".yml") and not is_file(path):
        raise RecipeError(unknown_name("recipe", name_or_path, recipe_names()) + ", or the path of a .yaml file")
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_YAML_CHARACTERS + 1)  # the reader refuses more
    except (OSError, ValueError) as error:
        raise RecipeError(f"{path}: cannot be read as a recipe ({error}).") from error
    return _over_base(read_yaml(text, str(path)), str(path))


def _over_base(content: Any, where: str, above: tuple[str, ...] = ()) -> Any:
    """Merge a recipe into its base; `above` are the recipes that inherit from this one, to find circles."""
    if not isinstance(content, dict) or "base" not in content:
        return content
    base = content["base"]
    if base not in recipe_names():
        raise RecipeError(f"{where}: " + unknown_name("base", str(base)[:60], recipe_names()))
    if base in above:
        raise RecipeError(f"{where}: its base {base!r} is itself based on it. Name another base.")
    below = _over_base(read_yaml(recipe_text(base), base), base, (*above, base))
    inherited = {name: value for name, value in below.items() if name not in _OWN}
    return merge_settings(inherited, {name: value for name, value in content.items() if name != "base"})


def recipe_names() -> list[str]:
    """List the recipes that ship with Tagloom."""
    return list(shipped_recipes())


def recipe_text(name: str) -> str:
    """Give the text of a shipped recipe, comments included and without its base."""
    if name not in recipe_names():
        raise RecipeError(unknown_name("recipe", name, recipe_names()))
    return shipped_recipes()[name].read_text(encoding="utf-8")


def for_task(recipe: Recipe, task: str | None) -> Recipe:
    """Change a recipe to another task, with that task's usual loss and metric; None leaves it as it is.

    >>> for_task(Recipe(), "single").loss.name
    'cross-entropy'
    """
    if task is None or task == recipe.task:
        return recipe
    loss = "cross-entropy" if task == "single" else "asymmetric"
    content = recipe.to_dict() | {"task": task, "loss": {"name": loss}}
    content["training"] |= {"metric": SHOWN_METRICS["single" if task == "single" else "multi"][0]}
    if task == "single":  # what a softmax cannot have
        content["words"] |= {"random_queries": 0, "labels_per_step": 0}
        if recipe.calibration.kind == "per-class":
            content["calibration"] = {"kind": "shared"}
    return recipe_from_dict(content, "--task")


def override(recipe: Recipe, settings: Sequence[str]) -> Recipe:
    """Change settings that are written as `part.field=value`, the way `--set` takes them.

    >>> override(Recipe(), ["training.epochs=3", "head.options.dropout=0.1"]).training.epochs
    3
    """
    return change_settings(recipe, read_settings(settings))


def read_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Read settings that are written as `part.field=value`; values are YAML.

    >>> read_settings(["training.epochs=3", "augment.flip=0.5"])
    {'training.epochs': 3, 'augment.flip': 0.5}
    """
    changes: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise RecipeError(f"--set {setting}: write it as part.field=value, for example training.epochs=5")
        changes[key.strip()] = read_yaml(value, f"--set {key}")
    return changes


def change_settings(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """Change settings by their dotted names, one after the other.

    Naming another head or loss drops the options of the one before. Naming another part of a head keeps that part's
    options.

    >>> change_settings(Recipe(), {"training.epochs": 3, "optimiser.name": "sgd"}).optimiser.name
    'sgd'
    >>> change_settings(Recipe(), {"head.name": "hsq", "head.options.readout.shared_experts": 4}).head.options
    {'readout': {'shared_experts': 4}}
    """
    content = recipe.to_dict()
    for key, value in changes.items():
        given = f"--set {key}={value}"
        *parts, last = key.split(".")
        if not parts and last not in content:
            near = [f"{part}.{last}" for part, fields in content.items() if isinstance(fields, dict) and last in fields]
            if near:
                raise RecipeError(f"{given}: did you mean {near[0]}={value}?")
        fields = content
        for part in parts:
            if part == "distill" and fields is content and content["distill"] is None:
                raise RecipeError(
                    f"{given}: the recipe has no distill section. The options of the command set it: "
                    f"tagloom distill --{last.replace('_', '-')} {value}"
                )
            if part in PARTS:
                fields[part] = part_options(part, fields.get(part))
            if not isinstance(fields.get(part), dict):
                raise RecipeError(f"{given}: " + unknown_name("part", part, fields))
            fields = fields[part]
        if last == "name" and "options" in fields and value != fields["name"]:
            fields["options"] = {}  # another head or loss has other options
        if last in PARTS and isinstance(value, str):
            value = part_options(last, fields.get(last)) | {"name": value}
        fields[last] = value
        if parts[:2] == ["head", "options"]:  # at once, so that the later of two ways to write an option wins
            content["head"]["options"] = nest_options(content["head"]["name"], content["head"]["options"])
    return recipe_from_dict(content, "--set")
