"""The tagger folder: what training hands over to prediction."""

import json
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tagloom.data.label_tree import LabelTree
from tagloom.errors import RecipeError, TaggerError, TagloomError
from tagloom.files import is_file, is_folder, whole_file
from tagloom.recipe.filling import fill
from tagloom.recipe.head_parts import nest_options, pin_first_defaults
from tagloom.recipe.names import Task
from tagloom.recipe.parts import check_depths
from tagloom.recipe.pictures import Preprocess
from tagloom.recipe.plain_data import read_json
from tagloom.scoring.calibration import Calibration
from tagloom.scoring.promise import HeldOutCounts
from tagloom.wording import shown

SPEC_FILE = "tagger.json"
WEIGHTS_FILE = "model.safetensors"
ONNX_FILE = "model.onnx"
CARD_FILE = "README.md"
WORDS_FILE = "words.safetensors"  # the vectors of its classes
VOCABULARY_FILE = "vocabulary.safetensors"  # those of many other words, so that they need no encoder
RUN_FILE = "run.json"  # the plan of a training, written when it starts
FORMAT = 2
READ_FORMATS = (1, 2)
MAX_SPEC_BYTES = 64 * 1024 * 1024
MAX_WORDS = 2**20  # in all queries that the classes need


@dataclass(frozen=True)
class WordForm:
    """How a tagger with word queries takes labels, its own and others.

    Attributes:
        source: Where the vectors in `words.safetensors` came from, and where those of other labels come from.
        places: The logit of each class: for word j of query k it is k · group_size + j.
        group_size: Words per query.
        fixed_queries: The number of queries, if it is fixed; None for any number.
        grouping: How other labels are split among queries: "random" by `grouping_seed`, or "consecutive".
        grouping_seed: The seed of "random".
    """

    source: str
    places: tuple[int, ...]
    group_size: int = 1
    fixed_queries: int | None = None
    grouping: Literal["random", "consecutive"] = "random"
    grouping_seed: int = 0

    def __post_init__(self) -> None:
        counts = (self.group_size, 1 if self.fixed_queries is None else self.fixed_queries)
        if min(counts) < 1 or self.group_size * counts[1] > MAX_WORDS or self.grouping_seed < 0:
            raise TaggerError(
                f"words: group_size and fixed_queries must be at least 1, their product at most {MAX_WORDS}, and "
                "grouping_seed at least 0."
            )
        needed = (max(self.places, default=0) // self.group_size + 1) * self.group_size
        if needed > MAX_WORDS:
            raise TaggerError(f"words: places and group_size need {needed} words at once; the most is {MAX_WORDS}.")
        queries = self.fixed_queries or len(self.places)
        if len(set(self.places)) != len(self.places) or not all(
            0 <= column < queries * self.group_size for column in self.places
        ):
            raise TaggerError("words: places must differ and be covered by the queries.")


@dataclass(frozen=True)
class TaggerSpec:
    """What `tagger.json` says.

    Attributes:
        classes: Label names, in the order of the logits.
        task: "multi" for any number of labels per image, "single" for exactly one.
        activation: What turns logits into scores: "sigmoid" for each label, or "softmax" over all.
        preprocess: How pictures are resized before the network.
        backbone: timm name of the network; its weights and normalisation are in `model.safetensors`.
        backbone_depths: Blocks of each of its stages; empty for the network's own.
        head: Name of the head.
        head_options: Options that rebuild the head.
        calibration: What is done to logits before they become scores; None for nothing.
        thresholds: The (calibrated) score above which each label becomes a tag; empty for 0.5 everywhere.
        held_out: What scores above candidate thresholds among images held out, to promise a precision or a recall;
            None if no labelled image was held out.
        training_positives: How many positive images of each class it learned from; empty where that is not known.
        parents: The parent of each class that has one, in a label tree: a parent scores at least as its children.
        words: How it takes any labels, if it has word queries; None if it knows its classes only.
        recipe: The recipe it was trained with.
        metrics: Its metrics, by the images they were measured on.
        data: Where its labels came from.
        version: The Tagloom that wrote it.
        format: Version of this file's format.
    """

    classes: tuple[str, ...]
    preprocess: Preprocess
    backbone: str
    head: str
    task: Task = "multi"
    activation: Literal["sigmoid", "softmax"] = "sigmoid"
    head_options: dict[str, Any] = field(default_factory=dict)
    backbone_depths: tuple[int, ...] = ()
    calibration: Calibration | None = None
    thresholds: tuple[float, ...] = ()
    held_out: HeldOutCounts | None = None
    training_positives: tuple[int, ...] = ()
    parents: dict[str, str] = field(default_factory=dict)
    words: WordForm | None = None
    recipe: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    format: int = FORMAT

    def __post_init__(self) -> None:
        object.__setattr__(self, "head_options", nest_options(self.head, self.head_options))
        check_depths("backbone_depths", self.backbone_depths)
        unlearnt = self.data.get("classes_without_positive", [])
        if not isinstance(unlearnt, list) or not all(isinstance(name, str) for name in unlearnt):
            raise TaggerError(f"data: classes_without_positive is {shown(unlearnt)}; it must be a list of names.")
        if not self.classes or len(set(self.classes)) != len(self.classes):
            raise TaggerError("a tagger needs at least one class, and class names must differ.")
        if self.thresholds and len(self.thresholds) != len(self.classes):
            raise TaggerError(f"{len(self.thresholds)} thresholds do not fit {len(self.classes)} classes.")
        if not all(0 <= value <= 1 for value in self.thresholds):
            raise TaggerError("thresholds must lie between 0 and 1.")
        if self.held_out is not None and len(self.held_out.classes) != len(self.classes):
            raise TaggerError(f"held_out: {len(self.held_out.classes)} counts do not fit {len(self.classes)} classes.")
        if self.training_positives and len(self.training_positives) != len(self.classes):
            raise TaggerError(
                f"{len(self.training_positives)} training_positives do not fit {len(self.classes)} classes."
            )
        if not all(isinstance(name, str) for name in self.parents.values()):
            raise TaggerError("parents must be the names of classes.")
        if self.tree and self.activation == "softmax":
            raise TaggerError("a tagger with one label per image cannot have a label tree.")
        if self.calibration is not None and self.calibration.scales:
            if len(self.calibration.scales) != len(self.classes):
                raise TaggerError(
                    f"calibration: {len(self.calibration.scales)} scales do not fit {len(self.classes)} classes."
                )
            if self.activation == "softmax":
                raise TaggerError("calibration: with a softmax all classes must share one scale.")
        if self.words is not None and len(self.words.places) != len(self.classes):
            raise TaggerError(f"words: {len(self.words.places)} places do not fit {len(self.classes)} classes.")

    @cached_property
    def tree(self) -> LabelTree:
        """The label tree of the classes; false if no class has a parent."""
        return LabelTree(self.classes, self.parents)

    def threshold_row(self) -> NDArray[np.float32]:
        """Give the threshold of each class, (N,)."""
        return np.asarray(self.thresholds or (0.5,) * len(self.classes), np.float32)


def write_spec(spec: TaggerSpec, folder: Path) -> None:
    """Write `tagger.json`, whole or not at all."""
    with whole_file(folder / SPEC_FILE) as partial:
        text = json.dumps(asdict(spec), indent=1, ensure_ascii=False, allow_nan=False)
        # A byte of a path that is not UTF-8 becomes an escape, which JSON reads back.
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")


def read_spec(folder: Path) -> TaggerSpec:
    """Read `tagger.json`, trusting nothing in it."""
    path = folder / SPEC_FILE
    if not is_folder(folder):
        raise TaggerError(f"{folder}: no such folder. Give the --out folder of a finished 'tagloom train'.")
    if not is_file(path):
        raise TaggerError(
            f"{folder}: has no {SPEC_FILE}, so it is not a finished tagger. "
            f"If its training was stopped, continue it with: tagloom train --resume --out {folder}"
        )
    try:
        content = read_json(path, MAX_SPEC_BYTES)
    except RecipeError as error:
        raise TaggerError(str(error)) from error
    found = content.get("format") if isinstance(content, dict) else None
    if found not in READ_FORMATS:
        raise TaggerError(
            f"{path}: has format {shown(found)}, but this Tagloom reads formats up to {FORMAT}. Upgrade tagloom."
        )
    try:
        spec = fill(TaggerSpec, content, str(path))
        if found == 1:
            spec = replace(spec, head_options=pin_first_defaults(spec.head, spec.head_options), format=FORMAT)
        return spec
    except TagloomError as error:
        raise TaggerError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error
