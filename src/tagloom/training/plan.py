"""What a run was asked for, kept in its folder so that resuming needs nothing else."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tagloom.errors import RecipeError, TagloomError, unknown_name
from tagloom.losses import create_loss
from tagloom.models.heads import head_options
from tagloom.recipe import Recipe, recipe_from_dict

RUN_FILE = "run.json"


@dataclass(frozen=True)
class RunPlan:
    """A run's data and recipe.

    Attributes:
        data: The training table.
        val: The validation table, or None.
        recipe: All choices of the training.
        data_options: How the tables' format is read, as `load_table` takes it.
        start: A tagger folder whose weights the run begins with, or None.
    """

    data: str
    val: str | None
    recipe: Recipe
    data_options: dict[str, str] = field(default_factory=dict)
    start: str | None = None

    def write(self, folder: Path) -> None:
        """Note the plan in the run's folder."""
        content = {
            # Absolute, so that the run can be resumed from any working directory.
            "data": _place(self.data),
            "val": None if self.val is None else _place(self.val),
            "data_options": self.data_options,
            "start": None if self.start is None else _place(self.start),
            "recipe": self.recipe.to_dict(),
        }
        (folder / "recipe.yaml").write_text(self.recipe.to_yaml(), encoding="utf-8")
        partial = folder / (RUN_FILE + ".partial")
        partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
        partial.replace(folder / RUN_FILE)

    def check_same(self, wanted: "RunPlan") -> None:
        """Refuse to go on with anything but what this run was begun with."""
        pairs: list[tuple[str, Any, Any]] = [
            ("the training table", _place(self.data), _place(wanted.data)),
            ("--val", self.val and _place(self.val), wanted.val and _place(wanted.val)),
            ("--data-option", self.data_options, wanted.data_options),
            ("--start-from", self.start and _place(self.start), wanted.start and _place(wanted.start)),
        ]
        now, then = wanted.recipe.to_dict(), self.recipe.to_dict()
        for part in then:
            fields = then[part] if isinstance(then[part], dict) else {"": then[part]}
            pairs.extend((f"{part}.{name}".strip("."), fields[name], _entry(now[part], name)) for name in fields)
        for name, before, asked in pairs:
            if before != asked:
                raise TagloomError(
                    f"--resume goes on with what the run was begun with, and {name} was {before}, not {asked}. "
                    "Leave it out, or begin another run with another --out."
                )

    @staticmethod
    def read(folder: Path) -> "RunPlan":
        """Read the plan of a run that was begun."""
        try:
            content = json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))
            recipe = recipe_from_dict(content["recipe"], str(folder / RUN_FILE))
            return RunPlan(content["data"], content["val"], recipe, content["data_options"], content.get("start"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TagloomError(
                f"{folder}: holds no run that could be resumed ({error}). Start it without --resume."
            ) from error


def _place(path: str) -> str:
    return str(Path(path).resolve())


def _entry(part: Any, name: str) -> Any:
    return part.get(name) if isinstance(part, dict) else part


def check_options(recipe: Recipe) -> None:
    """Check the options of head and loss, which only they themselves know."""
    allowed = head_options(recipe.head.name)
    for option in recipe.head.options:
        if option not in allowed:
            raise RecipeError(unknown_name(f"option of head '{recipe.head.name}'", option, allowed))
    create_loss(recipe.loss.name, **recipe.loss.options)
