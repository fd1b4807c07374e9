"""`tagloom evaluate`."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tagloom.cli.arguments import (
    SPLIT_FORMS,
    Data,
    DataOptions,
    Device,
    IgnoreOtherLabels,
    JsonPath,
    Plot,
    Precision,
    PromiseOn,
    Recall,
    Run,
    Words,
    name_left_out,
    promising,
    read_pairs,
    write_json,
)
from tagloom.errors import TagloomError
from tagloom.terminal import open_console, print_line, warn

if TYPE_CHECKING:
    from tagloom.data import LabelTable
    from tagloom.evaluation.evaluate import Evaluation, ScoredImages
    from tagloom.predict.tagger import Tagger


def evaluate(
    run: Run,
    data: Data,
    json_path: JsonPath = None,
    plot: Plot = None,
    threshold: Annotated[
        float | None, typer.Option(help="Use one threshold for all classes (default: the tagger's own).", min=0, max=1)
    ] = None,
    precision: Precision = None,
    recall: Recall = None,
    promise_on: PromiseOn = None,
    ignore_other_labels: IgnoreOtherLabels = False,
    split: Annotated[str | None, typer.Option(help=f"Labels that were not trained: {SPLIT_FORMS}")] = None,
    score_images: Annotated[
        Literal["all", "with-unseen"],
        typer.Option(help="With --split: score all images, or those with an unseen label, as zero-shot papers do."),
    ] = "all",
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
    Published figures on NUS-WIDE leave out images without an unseen label: --score-images with-unseen.
    """
    from tagloom.api.scoring import evaluate as evaluate_tagger
    from tagloom.api.scoring import open_table, open_tagger
    from tagloom.data.absent import columns_without_negatives
    from tagloom.evaluation.promise import check_promise
    from tagloom.recipe.parts import MAX_BROKEN_SHARE
    from tagloom.report.drawing import check_drawable
    from tagloom.report.metrics import render_metrics
    from tagloom.report.promise import render_promise
    from tagloom.report.reliability import draw_reliability, render_reliability

    if plot:
        check_drawable(plot)  # before minutes of scoring
    promise = {"precision": precision, "recall": recall}
    promised = precision is not None or recall is not None
    if split and (threshold is not None or promised or ignore_other_labels or plot):
        raise TagloomError(
            "--split measures rankings: leave out --threshold, --precision, --recall, --plot and --ignore-other-labels."
        )
    if not split and score_images != "all":
        raise TagloomError("--score-images chooses images by their unseen labels: name these with --split.")
    console = open_console()
    tagger, table = open_tagger(run, device, words), open_table(data, read_pairs(data_option))
    tagger = promising(tagger, promise_on, **promise)
    accepted = MAX_BROKEN_SHARE if max_broken is None else max_broken
    if split:
        result, content = _evaluate_split(tagger, table, split, score_images, accepted)
    else:
        rule = tagger.rule(threshold, precision=precision, recall=recall) if promised else None
        result = evaluate_tagger(
            tagger,
            table,
            threshold=threshold if rule is None else rule.limits,
            max_broken=accepted,
            ignore_other_labels=ignore_other_labels,
        )
        render_metrics(result.metrics, tagger.classes, console)
        render_reliability(result.calibration, tagger.classes, console)
        if silent := int(columns_without_negatives(table).sum()):
            warn(f"{silent} classes have no known negative here: their unknown pairs are counted as negatives")
        content = result.metrics | {"calibration": result.calibration}
        if rule is not None:
            name_left_out(rule.left_out, tagger.spec.held_out, **promise)
            kept = check_promise(result, tagger, table, rule, **promise, ignore_other_labels=ignore_other_labels)
            render_promise(kept, tagger.classes, console, **promise)
            content |= {"promise": promise | kept.to_dict()}
    for error in result.broken:
        warn(f"left out: {error}")
    if json_path:
        write_json(json_path, content)
    if plot:
        print_line(console, f"Drawn in {draw_reliability(result.calibration, plot)}")


def _evaluate_split(
    tagger: "Tagger", table: "LabelTable", given: str, score_images: "ScoredImages", max_broken: float
) -> tuple["Evaluation", dict[str, Any]]:
    """Score and show seen and unseen labels; give the result, and what --json writes of it."""
    from tagloom.api.scoring import choose_split
    from tagloom.api.scoring import evaluate as evaluate_tagger
    from tagloom.report.zeroshot import render_zero_shot

    split, notes = choose_split(tagger, table, given)
    for note in notes:
        warn(note)
    result = evaluate_tagger(tagger, table, split=split, score_images=score_images, max_broken=max_broken)
    render_zero_shot(result.metrics, result.classes, open_console())
    if score_images == "with-unseen":
        print_line(open_console(), f"Scored on the {len(result.rows):,} images that have an unseen label.")
    described = {"labels": list(result.classes), "unseen": list(split.unseen), "score_images": score_images}
    return result, {**described, **result.metrics}
