"""Arguments and small steps that several verbs share."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagloom.errors import TagloomError
from tagloom.files import whole_file

if TYPE_CHECKING:
    from tagloom.data import LabelTable
    from tagloom.predict.tagger import Tagger
    from tagloom.scoring.promise import HeldOutCounts

Data = Annotated[
    str,
    typer.Argument(
        help="A label table: .csv, .parquet, .jsonl, COCO .json, VOC, class folders, or packed data: a folder of "
        "shards, or an address such as s3://bucket/shards."
    ),
]
Run = Annotated[str, typer.Argument(help="A tagger folder (the --out of a training), or hf-hub:owner/name.")]
DataOptions = Annotated[
    list[str] | None,
    typer.Option("--data-option", help="Choose how to read the table: name=value, for example split=trainval."),
]
Device = Annotated[str, typer.Option(help="Choose where to compute: auto, cpu, cuda or mps.")]
IgnoreOtherLabels = Annotated[
    bool, typer.Option("--ignore-other-labels", help="Leave out labels that the tagger does not know.")
]
JsonPath = Annotated[Path | None, typer.Option("--json", help="Write all results to this file.")]
Plot = Annotated[Path | None, typer.Option(help="Draw the results: a .png, .svg or .pdf file.")]
Threshold = Annotated[
    float | None, typer.Option(help="Use one threshold for all classes (default: the tagger's own).", min=0, max=1)
]
TopK = Annotated[
    int | None,
    typer.Option(help="Give the best tags, exactly this many; with --threshold, at most this many.", min=1),
]
MaxTags = Annotated[int | None, typer.Option(help="Keep at most this many tags, all above their thresholds.", min=1)]
Precision = Annotated[
    float | None,
    typer.Option(
        help="Promise this precision of each label, for example 0.9, with 95 % confidence. Labels of which it cannot "
        "be promised are left out and named."
    ),
]
Recall = Annotated[
    float | None, typer.Option(help="Promise this recall of each label, with 95 % confidence, instead of a precision.")
]
PromiseOn = Annotated[
    str | None,
    typer.Option(
        help="Base the promise on this label table, whose images the tagger has not learned from (default: the images "
        "that its training held out)."
    ),
]
Words = Annotated[
    str | None,
    typer.Option(help="Take the vectors of new labels from here, if the tagger's own source has moved or is a model."),
]
SPLIT_FORMS = "a file that lists them, a .json with 'test class', or random:COUNT:SEED."

# What train and distill share.
TrainingData = Annotated[str | None, typer.Argument(help="The training table. Leave it out with --resume.")]
Val = Annotated[str | None, typer.Option(help="A validation table to measure the reported metrics on.")]
RecipeName = Annotated[
    str | None,
    typer.Option(help="Use this recipe: a name (see tagloom recipes list) or a .yaml file (default: quick)."),
]
Epochs = Annotated[int | None, typer.Option(help="Number of epochs; short for --set training.epochs=N.", min=1)]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Change the recipe: training.batch_size=32. Repeatable. See tagloom recipes show quick --all"
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in --out where it stopped.")]
Cache = Annotated[Path | None, typer.Option(help="Cache the features of frozen backbones in this folder.")]
TensorBoard = Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard events.")]


def promising(tagger: "Tagger", promise_on: str | None, precision: float | None, recall: float | None) -> "Tagger":
    """Give a tagger that promises from the images of --promise-on, if that is given."""
    if promise_on is None:
        return tagger
    if precision is None and recall is None:
        raise TagloomError("--promise-on says what a promise is based on: say which with --precision or --recall.")
    from tagloom.scoring.promise import wanted_share

    wanted_share(precision, recall)  # before minutes of scoring
    from tagloom.evaluation.promise import count_on
    from tagloom.progress import show_progress
    from tagloom.terminal import open_console, warn

    with show_progress(open_console(), "scoring images to promise from") as progress:
        counted = count_on(tagger, read_table(promise_on, None), progress=progress)
    for error in counted.broken:
        warn(f"left out: {error}")
    return tagger.with_counts(counted.counts)


def name_left_out(
    left_out: Sequence[str], counts: "HeldOutCounts | None", precision: float | None, recall: float | None
) -> None:
    """Say of which labels nothing can be promised, and what can be done about it."""
    if left_out and counts is not None:
        from tagloom.report.promise import describe_left_out
        from tagloom.terminal import note

        note(describe_left_out(left_out, counts, precision=precision, recall=recall))


def read_table(path: str, options: list[str] | None) -> "LabelTable":
    """Read a label table with --data-option values."""
    from tagloom.data import load_table

    return load_table(path, **read_pairs(options))


def read_pairs(options: list[str] | None) -> dict[str, str]:
    """Read --data-option values, each written as name=value."""
    pairs = {}
    for option in options or []:
        name, equals, value = option.partition("=")
        if not equals:
            raise TagloomError(f"--data-option {option}: write it as name=value, for example split=trainval")
        pairs[name.strip()] = value.strip()
    return pairs


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write what --json asks for. A byte of a file name that is not UTF-8 becomes an escape, as JSON reads it back."""
    try:
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise TagloomError(f"{path}: was not written, because a result is not a finite number ({error}).") from error
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial:
            partial.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise TagloomError(f"{path}: cannot be written ({error}). Name another file.") from error
