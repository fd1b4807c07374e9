"""Verbs that use a tagger: evaluate, predict, export."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from tagloom.cli.arguments import (
    Data,
    DataOptions,
    Device,
    IgnoreOtherLabels,
    Run,
    ScoredSplit,
    Words,
    needs_train,
    read_table,
    write_json,
)
from tagloom.errors import TagloomError
from tagloom.progress import show_progress
from tagloom.terminal import counted, note, open_console, warn
from tagloom.wording import printable

if TYPE_CHECKING:
    from rich.console import Console

    from tagloom.data import LabelTable
    from tagloom.predict.tagger import Tagger


def evaluate(
    run: Run,
    data: Data,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the metrics to this file.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw how reliable the scores are: a .png, .svg or .pdf file.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="One threshold for all classes; by default the tagger's own.", min=0, max=1)
    ] = None,
    ignore_other_labels: IgnoreOtherLabels = False,
    split: ScoredSplit = None,
    max_broken: Annotated[
        float | None,
        typer.Option(help="Above this share of unreadable images it is an error; 0.05 by default.", min=0, max=1),
    ] = None,
    words: Words = None,
    device: Device = "auto",
    data_option: DataOptions = None,
) -> None:
    """Score a tagger on a labelled table: mAP, precision, recall and F1, per class and over all.

    Also whether its scores are probabilities: the expected calibration error, before and after its calibration.

    With --split, a tagger of words on labels that it was not trained on: alone (ZSL) and among all labels (GZSL).
    """
    from tagloom.evaluation.evaluate import evaluate as evaluate_tagger
    from tagloom.predict.tagger import load
    from tagloom.recipe.parts import MAX_BROKEN_SHARE
    from tagloom.report.drawing import check_drawable
    from tagloom.report.metrics import render_metrics
    from tagloom.report.reliability import draw_reliability, render_reliability

    if plot:
        check_drawable(plot)  # before minutes of scoring
    console = open_console()
    tagger = load(run, device=device, words=words)
    table = read_table(data, data_option)
    allowed = MAX_BROKEN_SHARE if max_broken is None else max_broken
    if split:
        if threshold is not None or ignore_other_labels or plot:
            raise TagloomError(
                "--split measures rankings, and takes none of --threshold, --plot and --ignore-other-labels."
            )
        _evaluate_split(tagger, table, split, allowed, json_path, console)
        return
    with show_progress(console, f"scoring ({tagger.engine})") as progress:
        result = evaluate_tagger(
            tagger,
            table,
            threshold=threshold,
            max_broken=allowed,
            ignore_other_labels=ignore_other_labels,
            progress=progress,
        )
    render_metrics(result.metrics, tagger.classes, console)
    render_reliability(result.calibration, tagger.classes, console)
    for error in result.broken:
        warn(f"left out: {error}")
    if json_path:
        write_json(json_path, result.metrics | {"calibration": result.calibration})
    if plot:
        console.print(f"Drawn in {draw_reliability(result.calibration, plot)}", markup=False)


def _evaluate_split(
    tagger: "Tagger", table: "LabelTable", given: str, max_broken: float, json_path: Path | None, console: "Console"
) -> None:
    """Score and show seen and unseen labels."""
    from tagloom.evaluation.evaluate import evaluate_split, trained_labels
    from tagloom.labels.split import read_split, split_to_score
    from tagloom.report.zeroshot import render_zero_shot

    of_words = tagger.spec.words is not None
    split = split_to_score(given, tagger.classes, table.classes) if of_words else read_split(given, table.classes)
    labels = (*split.seen, *split.unseen)
    if others := [label for label in table.classes if label not in labels]:
        warn(f"{len(others)} labels of the table are neither trained nor unseen, and left out: {_some(others)}")
    with show_progress(console, f"scoring ({tagger.engine})") as progress:
        result = evaluate_split(tagger, table, split, max_broken=max_broken, progress=progress)
    render_zero_shot(result.metrics, labels, console)
    if met := [label for label in split.unseen if label in trained_labels(tagger)]:
        warn(f"{len(met)} of the unseen labels were trained, so the figures of ZSL are none: {_some(met)}")
    for error in result.broken:
        warn(f"left out: {error}")
    if json_path:
        write_json(json_path, {"labels": list(labels), "unseen": list(split.unseen), **result.metrics})


def _some(names: list[str]) -> str:
    return ", ".join(map(printable, names[:8])) + (" …" if len(names) > 8 else "")


def predict(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN] PICTURES...",
            help="A tagger folder or hf-hub:owner/name, or nothing for the ready tagger; then image files, and folders "
            "to search.",
            show_default=False,
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Write tags to this .csv or .jsonl file.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Score from which a label counts; by default chosen per class.", min=0, max=1)
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="At most so many labels per picture.", min=1)] = None,
    labels: Annotated[
        str | None,
        typer.Option(help="Labels to choose among, trained or not: 'surfboard, wedding', or a .txt file, one a line."),
    ] = None,
    words: Words = None,
    device: Device = "auto",
) -> None:
    """Put labels on pictures. A picture that cannot be read is named and passed over.

    With no tagger named, the ready one does it, which comes with Tagloom. Exits with 1 when no picture could be read.
    """
    from tagloom.predict.files import collect_images, read_labels, split_arguments, tag_files, write_tags
    from tagloom.predict.tagger import load

    run, pictures = split_arguments(places)
    paths = collect_images(pictures)
    tagger = load(run, device=device, words=words)
    if run is None:  # a folder that was meant as a tagger would otherwise be taken for pictures without a word
        note("no tagger is named: tagging with the ready one, which comes with Tagloom")
    if labels is not None:
        tagger = tagger.with_labels(read_labels(labels))
    console = open_console()
    failed = 0

    def readable() -> Iterator[tuple[Path, Any]]:
        nonlocal failed
        for path, tags in tag_files(tagger, paths, threshold=threshold, top_k=top_k):
            if isinstance(tags, list):
                yield path, tags
            else:
                failed += 1
                warn(str(tags))

    if out:
        with show_progress(console, "tagging") as progress:
            done = write_tags(counted(readable(), len(paths), progress), out)
        console.print(f"{done} of {len(paths)} pictures tagged, in {out}")
    else:
        for path, tags in readable():
            shown = "  ".join(f"[bold]{escape(tag.label)}[/] [dim]{tag.score:.2f}[/]" for tag in tags)
            console.print(f"{escape(str(path))}  {shown or '[dim]no label over its threshold[/]'}", soft_wrap=True)
    if failed == len(paths):
        raise typer.Exit(1)


def export(
    run: Run,
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    float16: Annotated[
        bool, typer.Option("--float16", help="Store weights in half the bytes; they are computed with in float32.")
    ] = False,
) -> None:
    """Write a folder with no more than predicting needs: tagger.json, model.onnx and the model card, without torch.

    With --float16 its scores are compared with the run's, and it is not written if they differ by more than 0.02. No
    file that is there is written over.
    """
    with needs_train("exporting"):
        import onnx  # noqa: F401 - asked for here, so that the message comes before any work

        from tagloom.predict.package import write_package
    from tagloom.predict.tagger import find_folder
    from tagloom.tagger.spec import ONNX_FILE

    worst = write_package(find_folder(run), out, float16=float16)
    size = (out / ONNX_FILE).stat().st_size / 1e6
    compared = "" if worst is None else f", and scores differ from the run's by at most {worst:.4f}"
    open_console().print(f"Written to {out}: {ONNX_FILE} has {size:.1f} MB{compared}.", markup=False)
