"""The tagger folder: all that prediction needs, and all that training hands over."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import TaggerError, TagloomError
from tagloom.files import whole_file
from tagloom.recipe.filling import fill
from tagloom.recipe.head_parts import nest_options
from tagloom.recipe.pictures import Preprocess
from tagloom.scoring.calibration import Calibration

SPEC_FILE = "tagger.json"
WEIGHTS_FILE = "model.safetensors"
ONNX_FILE = "model.onnx"
CARD_FILE = "README.md"
WORDS_FILE = "words.safetensors"
RUN_FILE = "run.json"  # the plan of a training, there from its beginning
FORMAT = 1
MAX_SPEC_BYTES = 64 * 1024 * 1024
MAX_WORDS = 2**20  # of all queries together that the classes need


@dataclass(frozen=True)
class WordForm:
    """How a tagger of words is asked for labels, its own and others.

    Attributes:
        source: Where the vectors of `words.safetensors` came from, and those of other labels come from.
        places: Of each class, where its word stands: query k, place j is k · group_size + j.
        group_size: Words per query.
        fixed_queries: How many queries there always are; None where there may be any number.
        grouping: How other labels are parted among queries: "random" by `grouping_seed`, or "consecutive".
        grouping_seed: Decides the "random" parting.
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
                f"words: group_size and fixed_queries are whole numbers from 1 on, their product up to {MAX_WORDS}, "
                "and grouping_seed is one from 0 on."
            )
        needed = (max(self.places, default=0) // self.group_size + 1) * self.group_size
        if needed > MAX_WORDS:
            raise TaggerError(f"words: places and group_size ask for {needed} words at once; {MAX_WORDS} are the most.")
        queries = self.fixed_queries or len(self.places)
        if len(set(self.places)) != len(self.places) or not all(
            0 <= place < queries * self.group_size for place in self.places
        ):
            raise TaggerError("words: places must differ, and lie where there are queries.")


@dataclass(frozen=True)
class TaggerSpec:
    """What `tagger.json` says.

    Attributes:
        classes: Label names, in the order of the logits.
        task: "multi" for any number of labels per picture, "single" for exactly one.
        activation: What turns logits into scores: "sigmoid" per label, or "softmax" over all.
        preprocess: How pictures are resized before the network.
        backbone: timm name of the network; its weights and normalisation are in `model.safetensors`.
        head: Name of the head.
        head_options: Options that rebuild the head.
        calibration: What is done to logits before they become scores; None for nothing.
        thresholds: The (calibrated) score from which each label counts; empty for 0.5 everywhere.
        words: How it is asked for labels, where it scores any; None where it knows its classes only.
        recipe: The recipe it was trained with.
        metrics: What it scored, and on what.
        data: Where its labels came from.
        version: The Tagloom that wrote it.
        format: Version of this file's form.
    """

    classes: tuple[str, ...]
    preprocess: Preprocess
    backbone: str
    head: str
    task: Literal["multi", "single"] = "multi"
    activation: Literal["sigmoid", "softmax"] = "sigmoid"
    head_options: dict[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None
    thresholds: tuple[float, ...] = ()
    words: WordForm | None = None
    recipe: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    format: int = FORMAT

    def __post_init__(self) -> None:
        object.__setattr__(self, "head_options", nest_options(self.head, self.head_options))
        if not self.classes or len(set(self.classes)) != len(self.classes):
            raise TaggerError("a tagger needs at least one class, and no class name twice.")
        if self.thresholds and len(self.thresholds) != len(self.classes):
            raise TaggerError(f"{len(self.thresholds)} thresholds do not fit {len(self.classes)} classes.")
        if not all(0 <= value <= 1 for value in self.thresholds):
            raise TaggerError("thresholds must lie between 0 and 1.")
        if self.calibration is not None and self.calibration.scales:
            if len(self.calibration.scales) != len(self.classes):
                raise TaggerError(
                    f"calibration: {len(self.calibration.scales)} scales do not fit {len(self.classes)} classes."
                )
            if self.activation == "softmax":
                raise TaggerError("calibration: with a softmax all classes share one scale.")
        if self.words is not None and len(self.words.places) != len(self.classes):
            raise TaggerError(f"words: {len(self.words.places)} places do not fit {len(self.classes)} classes.")

    def threshold_row(self) -> NDArray[np.float32]:
        """Give one threshold per class, (N,)."""
        return np.asarray(self.thresholds or (0.5,) * len(self.classes), np.float32)


def write_spec(spec: TaggerSpec, folder: Path) -> None:
    """Write `tagger.json` in one step that leaves no half-written file."""
    with whole_file(folder / SPEC_FILE) as partial:
        partial.write_text(json.dumps(asdict(spec), indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8")


def read_spec(folder: Path) -> TaggerSpec:
    """Read `tagger.json`, trusting nothing in it."""
    path = folder / SPEC_FILE
    if not folder.is_dir():
        raise TaggerError(f"{folder}: no such folder. Give the --out folder of a finished 'tagloom train'.")
    if not path.is_file():
        raise TaggerError(
            f"{folder}: has no {SPEC_FILE}, so it is no finished tagger. "
            "If its training was stopped, go on with: tagloom train --resume --out " + str(folder)
        )
    if path.stat().st_size > MAX_SPEC_BYTES:
        raise TaggerError(f"{path}: larger than {MAX_SPEC_BYTES} bytes; this is no tagger of ours.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise TaggerError(f"{path}: is not valid JSON ({error}).") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else None
        raise TaggerError(f"{path}: has format {found}, this Tagloom reads format {FORMAT}. Upgrade tagloom.")
    try:
        return fill(TaggerSpec, content, str(path))
    except TypeError as error:
        raise TaggerError(f"{path}: lacks something a tagger needs ({error}).") from error
    except TagloomError as error:
        raise TaggerError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error
