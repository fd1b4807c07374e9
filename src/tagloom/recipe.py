"""A recipe: all choices of one training, as plain data. Names in it are keys of closed tables, never import paths."""

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tagloom.data.transforms import Augment, Preprocess
from tagloom.distill_settings import Distillation
from tagloom.errors import RecipeError, unknown_name
from tagloom.recipe_parts import (
    BackboneSettings,
    CalibrationSettings,
    DataSettings,
    HeadSettings,
    LossSettings,
    OptimiserSettings,
    ThresholdSettings,
    TrainingSettings,
    WordSettings,
)
from tagloom.recipes import shipped_recipes
from tagloom.settings import MAX_YAML_CHARACTERS, fill, lay_over, read_yaml, write_yaml

# What a paper may report of a recipe, in percent: "zsl" of unseen labels only, "gzsl" of all labels, "baseline" of the
# same training without teachers.
FIGURE_NAMES = (
    *("mAP", "CF1", "OF1", "top1", "baseline_mAP"),
    *("zsl_mAP", "zsl_F1@3", "zsl_F1@5", "gzsl_mAP", "gzsl_F1@3", "gzsl_F1@5"),
)
# What a recipe says of itself alone; all else comes from its base.
_OWN = ("name", "purpose", "reports")


@dataclass(frozen=True)
class Recipe:
    """All choices of one training.

    Attributes:
        name: What the recipe is called.
        purpose: One line that says when to take it.
        paper: The paper whose training it is; empty for one of nobody's.
        reports: What the paper reports of it: `source`, and figures in percent by `FIGURE_NAMES`.
        task: "multi" (any number of labels per image) or "single" (exactly one).
        data, preprocess, augment, backbone, words, head, loss, optimiser, training, calibration, thresholds: The parts.
        distill: How `tagloom distill` has teachers take part, unless told otherwise; `tagloom train` has none.
    """

    name: str = "custom"
    purpose: str = ""
    paper: Literal["", "ml-decoder", "query2label", "hsq", "layover", "cpsd"] = ""
    reports: dict[str, Any] = field(default_factory=dict)
    task: Literal["multi", "single"] = "multi"
    data: DataSettings = field(default_factory=DataSettings)
    preprocess: Preprocess = field(default_factory=Preprocess)
    augment: Augment = field(default_factory=Augment)
    backbone: BackboneSettings = field(default_factory=BackboneSettings)
    words: WordSettings = field(default_factory=WordSettings)
    head: HeadSettings = field(default_factory=HeadSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    calibration: CalibrationSettings = field(default_factory=CalibrationSettings)
    thresholds: ThresholdSettings = field(default_factory=ThresholdSettings)
    distill: Distillation | None = None

    def __post_init__(self) -> None:
        _check_reports(self.reports)
        if self.task == "multi" and self.loss.name == "cross-entropy":
            raise RecipeError("loss 'cross-entropy' needs one label per image: set task: single, or take 'asymmetric'.")
        if self.task == "multi" and self.training.metric == "top1":
            raise RecipeError("training.metric 'top1' needs one label per image: set task: single, or take 'mAP'.")
        if self.calibration.kind == "per-class" and self.activation == "softmax":
            raise RecipeError(
                "calibration.kind 'per-class' would change which class is best under a softmax: take 'shared'."
            )

        if self.words.random_queries and (self.activation == "softmax" or self.loss.options.get("weights") is not None):
            raise RecipeError(
                "words.random_queries add labels of their own to the loss, so it cannot be 'cross-entropy' nor have "
                "weights of labels. Set words.random_queries: 0."
            )

        moving = replace(self.augment, flip=0.0, randaugment_magnitude=Augment.randaugment_magnitude)
        if self.from_cache and moving != Augment() and not self.training.cached_views:
            raise RecipeError(
                "features are extracted once and cached, so of all augmentations only augment.flip can be had for "
                "nothing. Set training.cached_views: 6 to keep six augmented views of each picture, or "
                "training.cache_features: false to augment pictures anew in every epoch."
            )
        if self.from_cache and (self.augment.mixup, self.augment.cutmix, self.augment.repeats) != (0.0, 0.0, 1):
            raise RecipeError(
                "mixup, cutmix and repeats are drawn with every batch and cannot be cached. Set "
                "training.cache_features: false."
            )
        if self.training.cached_views and (not self.from_cache or self.augment == Augment()):
            raise RecipeError(
                "training.cached_views keeps augmented views of pictures for a frozen backbone. Set backbone.frozen "
                "and training.cache_features, and say in augment what is done to the pictures, or leave it at 0."
            )

    @property
    def activation(self) -> Literal["sigmoid", "softmax"]:
        """What turns logits into scores: the loss decides, since it decides what the logits mean."""
        return "softmax" if self.loss.name == "cross-entropy" else "sigmoid"

    @property
    def from_cache(self) -> bool:
        """Whether heads train from features that were extracted once."""
        return self.backbone.frozen and self.training.cache_features

    def to_dict(self) -> dict[str, Any]:
        """Give plain data that `recipe_from_dict` takes back."""
        return asdict(self)

    def to_yaml(self) -> str:
        """Write the whole recipe, defaults included."""
        return write_yaml(self.to_dict())


def recipe_from_dict(content: object, where: str = "recipe") -> Recipe:
    """Fill a recipe from plain data; a wrong name or value is an error that says where and what is right."""
    return fill(Recipe, content, where)


def load_recipe(name_or_path: str) -> Recipe:
    """Read a recipe by its name among those that ship with Tagloom, or from a YAML file, with its base below it."""
    return recipe_from_dict(recipe_content(name_or_path), name_or_path)


def recipe_content(name_or_path: str) -> Any:
    """Give what a recipe sets, as plain data: its own settings over those of its base, without defaults.

    A recipe may say `base: NAME`, the name of one that ships with Tagloom. It then has all settings of that one but for
    those that it sets itself; what its base says of itself alone (name, purpose, reports) is not taken over.
    """
    if name_or_path in recipe_names():
        return _over_base(read_yaml(recipe_text(name_or_path), name_or_path), name_or_path, (name_or_path,))
    path = Path(name_or_path)
    if path.suffix.lower() not in (".yaml", ".yml") and not path.is_file():
        raise RecipeError(unknown_name("recipe", name_or_path, recipe_names()) + ", or the path of a .yaml file")
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_YAML_CHARACTERS + 1)  # the reader refuses more
    except (OSError, ValueError) as error:
        raise RecipeError(f"{path}: cannot be read as a recipe ({error}).") from error
    return _over_base(read_yaml(text, str(path)), str(path))


def _over_base(content: Any, where: str, above: tuple[str, ...] = ()) -> Any:
    """Lay what a recipe says over its base; `above` are the recipes that lie on it already."""
    if not isinstance(content, dict) or "base" not in content:
        return content
    base = content["base"]
    if base not in recipe_names():
        raise RecipeError(f"{where}: " + unknown_name("base", str(base)[:60], recipe_names()))
    if base in above:
        raise RecipeError(f"{where}: its base {base!r} lies on it already. Name another base.")
    below = _over_base(read_yaml(recipe_text(base), base), base, (*above, base))
    inherited = {name: value for name, value in below.items() if name not in _OWN}
    return lay_over(inherited, {name: value for name, value in content.items() if name != "base"})


def recipe_names() -> list[str]:
    """List the recipes that ship with Tagloom."""
    return list(shipped_recipes())


def recipe_text(name: str) -> str:
    """Give the text of a shipped recipe, comments included and without its base."""
    if name not in recipe_names():
        raise RecipeError(unknown_name("recipe", name, recipe_names()))
    return shipped_recipes()[name].read_text(encoding="utf-8")


def for_task(recipe: Recipe, task: str | None) -> Recipe:
    """Turn a recipe to another task with that task's usual loss; None leaves it as it is.

    >>> for_task(Recipe(), "single").loss.name
    'cross-entropy'
    """
    if task is None or task == recipe.task:
        return recipe
    loss = "cross-entropy" if task == "single" else "asymmetric"
    metric = "top1" if task == "single" else "mAP"
    content = recipe.to_dict() | {"task": task, "loss": {"name": loss}}
    content["training"] |= {"metric": metric}
    if task == "single":  # what a softmax cannot have
        content["words"] |= {"random_queries": 0}
        if recipe.calibration.kind == "per-class":
            content["calibration"] = {"kind": "shared"}
    return recipe_from_dict(content, "--task")


def override(recipe: Recipe, settings: list[str]) -> Recipe:
    """Change fields by `part.field=value`, as the command's `--set` does, one after the other.

    Naming another head or loss drops the options of the one before.

    >>> override(Recipe(), ["training.epochs=3", "head.options.dropout=0.1"]).training.epochs
    3
    """
    content = recipe.to_dict()
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise RecipeError(f"--set {setting}: write it as part.field=value, for example training.epochs=5")
        *parts, last = key.strip().split(".")
        if not parts and last not in content:
            near = [f"{part}.{last}" for part, fields in content.items() if isinstance(fields, dict) and last in fields]
            if near:
                raise RecipeError(f"--set {setting}: did you mean {near[0]}={value}?")
        place = content
        for part in parts:
            if part == "distill" and place is content and content["distill"] is None:
                raise RecipeError(
                    f"--set {setting}: the recipe has no distill section. The options of the command set it: "
                    f"tagloom distill --{last.replace('_', '-')} {value}"
                )
            if not isinstance(place.get(part), dict):
                raise RecipeError(f"--set {setting}: " + unknown_name("part", part, place))
            place = place[part]
        changed = read_yaml(value, f"--set {key}")
        if last == "name" and "options" in place and changed != place["name"]:
            place["options"] = {}  # another head or loss has other options
        place[last] = changed
    return recipe_from_dict(content, "--set")


def _check_reports(reports: dict[str, Any]) -> None:
    for name, value in reports.items():
        if name == "source":
            if not isinstance(value, str):
                raise RecipeError(f"reports.source is {value!r}; it names a paper and a table of it.")
        elif name not in FIGURE_NAMES:
            raise RecipeError("reports: " + unknown_name("figure", name, ("source", *FIGURE_NAMES)))
        elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
            raise RecipeError(f"reports.{name} is {value!r}; it is a number of percent.")
    if reports and not reports.get("source"):
        raise RecipeError("reports: say where the figures stand, for example source: ML-Decoder, Table 10")
