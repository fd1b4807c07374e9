"""What a run was asked for, kept in its folder so that resuming needs nothing else."""

import json
from dataclasses import dataclass, field
from pathlib import Path

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
    """

    data: str
    val: str | None
    recipe: Recipe
    data_options: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Note the plan in the run's folder."""
        content = {
            # Absolute, so that the run can be resumed from any working directory.
            "data": str(Path(self.data).resolve()),
            "val": None if self.val is None else str(Path(self.val).resolve()),
            "data_options": self.data_options,
            "recipe": self.recipe.to_dict(),
        }
        (folder / "recipe.yaml").write_text(self.recipe.to_yaml(), encoding="utf-8")
        partial = folder / (RUN_FILE + ".partial")
        partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
        partial.replace(folder / RUN_FILE)

    @staticmethod
    def read(folder: Path) -> "RunPlan":
        """Read the plan of a run that was begun."""
        try:
            content = json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))
            recipe = recipe_from_dict(content["recipe"], str(folder / RUN_FILE))
            return RunPlan(content["data"], content["val"], recipe, content["data_options"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TagloomError(
                f"{folder}: holds no run that could be resumed ({error}). Start it without --resume."
            ) from error


def check_options(recipe: Recipe) -> None:
    """Check the options of head and loss, which only they themselves know."""
    allowed = head_options(recipe.head.name)
    for option in recipe.head.options:
        if option not in allowed:
            raise RecipeError(unknown_name(f"option of head '{recipe.head.name}'", option, allowed))
    create_loss(recipe.loss.name, **recipe.loss.options)
