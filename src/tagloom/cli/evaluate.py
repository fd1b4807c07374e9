"""`tagloom evaluate`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagloom.cli.arguments import (
    SPLIT_FORMS,
    Data,
    DataOptions,
    Device,
    IgnoreOtherLabels,
    JsonPath,
    Plot,
    Run,
    Words,
    read_pairs,
    write_json,
)
from tagloom.errors import TagloomError
from tagloom.terminal import open_console, print_line, warn

if TYPE_CHECKING:
    from tagloom.data import LabelTable
    from tagloom.evaluation.evaluate import Evaluation
    from tagloom.predict.tagger import Tagger


def evaluate(
    run: Run,
    data: Data,
    json_path: JsonPath = None,
    plot: Plot = None,
    threshold: Annotated[
        float | None, typer.Option(help="Use one threshold for all classes (default: the tagger's own).", min=0, max=1)
    ] = None,
    ignore_other_labels: IgnoreOtherLabels = False,
    split: Annotated[str | None, typer.Option(help=f"Labels that were not trained: {SPLIT_FORMS}")] = None,
    max_broken: Annotated[
        float | None,
        typer.Option(help="Fail if more than this share of images is unreadable (default: 0.05).", min=0, max=1),
    ] = None,
    words: Words = None,
    device: Device = "auto",
    data_option: DataOptions = None,
) -> None:
    """Score a tagger on a labelled table: mAP, precision, recall and F1, per class and in total.

    Example: tagloom evaluate runs/first photos/val.csv --plot reliability.png

    Also shows whether its scores are probabilities: the expected calibration error, before and after calibration.

    With --split, scores a tagger with word queries on labels it was not trained on: alone (ZSL) and among all (GZSL).
    """
    from tagloom.api.scoring import evaluate as evaluate_tagger
    from tagloom.api.scoring import open_table, open_tagger
    from tagloom.recipe.parts import MAX_BROKEN_SHARE
    from tagloom.report.drawing import check_drawable
    from tagloom.report.metrics import render_metrics
    from tagloom.report.reliability import draw_reliability, render_reliability

    if plot:
        check_drawable(plot)  # before minutes of scoring
    if split and (threshold is not None or ignore_other_labels or plot):
        raise TagloomError("--split measures rankings: leave out --threshold, --plot and --ignore-other-labels.")
    console = open_console()
    tagger, table = open_tagger(run, device, words), open_table(data, read_pairs(data_option))
    accepted = MAX_BROKEN_SHARE if max_broken is None else max_broken
    if split:
        result, content = _evaluate_split(tagger, table, split, accepted)
    else:
        result = evaluate_tagger(
            tagger, table, threshold=threshold, max_broken=accepted, ignore_other_labels=ignore_other_labels
        )
        render_metrics(result.metrics, tagger.classes, console)
        render_reliability(result.calibration, tagger.classes, console)
        content = result.metrics | {"calibration": result.calibration}
    for error in result.broken:
        warn(f"left out: {error}")
    if json_path:
        write_json(json_path, content)
    if plot:
        print_line(console, f"Drawn in {draw_reliability(result.calibration, plot)}")


def _evaluate_split(
    tagger: "Tagger", table: "LabelTable", given: str, max_broken: float
) -> tuple["Evaluation", dict[str, Any]]:
    """Score and show seen and unseen labels; give the result, and what --json writes of it."""
    from tagloom.api.scoring import choose_split
    from tagloom.api.scoring import evaluate as evaluate_tagger
    from tagloom.report.zeroshot import render_zero_shot

    split, notes = choose_split(tagger, table, given)
    for note in notes:
        warn(note)
    result = evaluate_tagger(tagger, table, split=split, max_broken=max_broken)
    render_zero_shot(result.metrics, result.classes, open_console())
    return result, {"labels": list(result.classes), "unseen": list(split.unseen), **result.metrics}
