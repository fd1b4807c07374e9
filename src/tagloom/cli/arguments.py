"""Arguments and small steps that several verbs share."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagloom.errors import MissingExtraError, TagloomError

if TYPE_CHECKING:
    from tagloom.data import LabelTable

Data = Annotated[str, typer.Argument(help="A label table: .csv, .parquet, .jsonl, COCO .json, VOC or class folders.")]
Run = Annotated[str, typer.Argument(help="A tagger folder (the --out of a training), or hf-hub:owner/name.")]
IgnoreOtherLabels = Annotated[
    bool, typer.Option("--ignore-other-labels", help="Leave out labels that the tagger does not know.")
]
_SPLIT = "a file that lists them, a .json with 'test class', or random:COUNT:SEED."
Split = Annotated[str | None, typer.Option(help=f"Labels not to train: {_SPLIT}")]
ScoredSplit = Annotated[str | None, typer.Option("--split", help=f"Labels that were not trained: {_SPLIT}")]
Words = Annotated[
    str | None,
    typer.Option(help="Where vectors of new labels come from, if the tagger's own source has moved or is a model."),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
DataOptions = Annotated[
    list[str] | None,
    typer.Option("--data-option", help="How a format is read, as name=value, e.g. split=trainval, difficult=unknown."),
]


def read_table(path: str, options: list[str] | None) -> "LabelTable":
    """Read a label table with --data-option values."""
    from tagloom.data import load_table

    return load_table(path, **read_pairs(options))


def read_pairs(options: list[str] | None) -> dict[str, str]:
    """Read name=value options."""
    pairs = {}
    for option in options or []:
        name, equals, value = option.partition("=")
        if not equals:
            raise TagloomError(f"--data-option {option}: write it as name=value, for example split=trainval")
        pairs[name.strip()] = value.strip()
    return pairs


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write what --json asked for."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8")
    except OSError as error:
        raise TagloomError(f"{path}: cannot be written ({error}).") from error


@contextmanager
def needs_train(what: str) -> Iterator[None]:
    """Turn a missing torch into a message that names the install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "timm", "safetensors", "onnx", "onnxscript"):
            raise
        raise MissingExtraError(what, "train") from error
