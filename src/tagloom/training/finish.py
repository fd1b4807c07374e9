"""From trained weights to a finished tagger folder: calibration, thresholds, metrics, and every file of the folder."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape

import tagloom
from tagloom.data.label_tree import LabelTree
from tagloom.data.pair_counts import pairs_per_class
from tagloom.errors import TaggerError
from tagloom.files import whole_file
from tagloom.models.network import TaggerNetwork, count_parameters, export_network, save_weights
from tagloom.recipe import Recipe
from tagloom.scoring.calibration import Calibration, to_scores
from tagloom.scoring.calibration_fit import fit_calibration
from tagloom.scoring.measure import measure_scores
from tagloom.scoring.promise import HeldOutCounts, count_held_out
from tagloom.scoring.thresholds import choose_thresholds
from tagloom.tagger.card import model_card
from tagloom.tagger.spec import CARD_FILE, ONNX_FILE, WORDS_FILE, TaggerSpec, WordForm, write_spec
from tagloom.training.contents import changed_note
from tagloom.training.context import RunContext
from tagloom.training.features.broken import note_skipped
from tagloom.training.features.prepare import RunBatches
from tagloom.training.plan import RunPlan
from tagloom.training.tables import Tables
from tagloom.training.tasks.supervised import Forward
from tagloom.training.validation import Scored, score_part
from tagloom.words.sources import resolved_source
from tagloom.words.vector_files import LabelVectors, write_vectors

Metrics = dict[str, dict[str, Any]]
"""Metrics by part: "validation" and "held_aside"; of a student also "teachers" and "baseline"."""


class Decision(NamedTuple):
    """What turns logits into tags.

    Attributes:
        calibration: What is done to logits before they become scores; None for nothing.
        thresholds: (N,), the score above which each class becomes a tag.
        held_out: What a promise can be made from; None if no labelled image is held out.
    """

    calibration: Calibration | None
    thresholds: NDArray[np.float32]
    held_out: HeldOutCounts | None = None


class Parts(NamedTuple):
    """The scored images of a finished run; None where a part is empty."""

    validation: Scored | None
    held_out: Scored | None


def finish(
    network: TaggerNetwork,
    forward: Forward,
    plan: RunPlan,
    tables: Tables,
    batches: RunBatches,
    epochs: int,
    changed: int,
    beside: Metrics,
    context: RunContext,
) -> Metrics:
    """Calibrate, choose thresholds, measure, and write the tagger folder. Only the first of several processes does.

    Args:
        network: Trained.
        forward: From a batch's inputs to its logits (B, N).
        plan: The run's.
        tables: The run's.
        batches: The run's.
        epochs: How many epochs were trained.
        changed: How many images changed or vanished while the run was stopped.
        beside: What others score on the same images, to be kept with the metrics.
        context: The run's.

    Returns:
        The metrics on validation images and on those held out, then those of others.
    """
    note_skipped((batches.learn, batches.held_out, batches.val), context)
    network.eval()
    held_out = score_part(batches.held_out, forward, "held-out images", context)
    validation = score_part(batches.val, forward, "validation images", context)
    scored = Parts(validation, held_out)
    return context.world.from_first(
        lambda: _complete(network, scored, plan, tables, batches, epochs, changed, beside, context)
    )


def _complete(
    network: TaggerNetwork,
    parts: Parts,
    plan: RunPlan,
    tables: Tables,
    batches: RunBatches,
    epochs: int,
    changed: int,
    beside: Metrics,
    context: RunContext,
) -> Metrics:
    """Turn scored images into a decision and metrics, and write the folder; arguments as for `finish`."""
    recipe, tree = plan.recipe, tables.table.tree
    validation, held_out = parts
    positives = tuple(pairs_per_class(tables.table.positive[~tables.held_out]).tolist())
    decision = decide(held_out, recipe, tree)
    if recipe.calibration.kind != "none" and decision.calibration is None:
        context.log.say("[yellow]no labelled image is held out, so scores are not calibrated.[/]")
    metrics = {
        part: measure(scored, recipe, decision, tree, positives)
        for part, scored in (("validation", validation), ("held_aside", held_out))
        if scored is not None
    } | beside
    spec = TaggerSpec(
        classes=tables.table.classes,
        preprocess=recipe.preprocess,
        backbone=recipe.backbone.name,
        backbone_depths=recipe.backbone.depths,
        head=recipe.head.name,
        head_options=recipe.head.options,
        task=recipe.task,
        activation=recipe.activation,
        calibration=decision.calibration,
        thresholds=tuple(float(value) for value in decision.thresholds),
        held_out=decision.held_out,
        training_positives=positives,
        parents=tree.parent_names() if recipe.activation == "sigmoid" else {},
        words=_word_form(network, recipe),
        recipe=recipe.to_dict(),
        metrics=metrics,
        data=_origin(plan, tables, batches) | {"epochs": epochs} | changed_note(changed) | _sizes(network),
        version=tagloom.__version__,
    )
    _write_folder(spec, network, plan, context)
    return metrics


def decide(held_out: Scored | None, recipe: Recipe, tree: LabelTree) -> Decision:
    """Fit the calibration on the held-out images, then thresholds of the calibrated scores; without images, neither."""
    classes = len(tree.classes)
    aim, value = recipe.thresholds.aim, recipe.thresholds.value
    if held_out is None:
        return Decision(None, np.full(classes, value if aim == "fixed" else 0.5, np.float32))
    kind = recipe.calibration.kind
    calibration = None if kind == "none" else fit_calibration(*held_out, kind=kind, activation=recipe.activation)
    scores = to_scores(held_out.logits, recipe.activation, calibration, tree)
    wanted = None if aim == "f1" else value
    thresholds = choose_thresholds(scores, held_out.targets, held_out.known, aim=aim, value=wanted)
    counts = count_held_out(scores, held_out.targets, held_out.known)
    return Decision(calibration, tree.consistent_thresholds(thresholds), counts)


def measure(
    scored: Scored, recipe: Recipe, decision: Decision, tree: LabelTree, positives: tuple[int, ...]
) -> dict[str, Any]:
    """Give the metrics of some images as `tagloom evaluate` does, including "calibration"."""
    metrics, calibration = measure_scores(
        *scored,
        threshold=decision.thresholds,
        task=recipe.task,
        activation=recipe.activation,
        calibration=decision.calibration,
        tree=tree,
        training_positives=positives,
    )
    return metrics | {"calibration": calibration}


def _origin(plan: RunPlan, tables: Tables, batches: RunBatches) -> dict[str, Any]:
    """Say what a tagger was trained on."""
    table = tables.table
    positives = np.asarray(table.positive.sum(axis=0)).ravel()
    return {
        "training_table": plan.data,
        "validation_table": plan.val or "none",
        "started_from": plan.start or "none",
        "distilled_from": f"teachers of the kinds {', '.join(plan.distill.kinds)}" if plan.distill else "none",
        "images_learned_from": len(batches.learn.labels.table),
        "images_held_aside": 0 if batches.held_out is None else len(batches.held_out.labels.table),
        "unreadable_images_left_out": len(batches.broken),
        "classes_without_positive": [table.classes[column] for column in np.flatnonzero(positives == 0)],
    }


def _sizes(network: TaggerNetwork) -> dict[str, int]:
    total, trained = count_parameters(network)
    return {"parameters": total, "trained_parameters": trained}


def _write_folder(spec: TaggerSpec, network: TaggerNetwork, plan: RunPlan, context: RunContext) -> None:
    """Write the files of the tagger; `tagger.json` last, since it means "finished"."""
    save_weights(network, context.out)
    vectors = _word_vectors(network, spec.classes)
    if vectors is not None:
        write_vectors(context.out / WORDS_FILE, vectors)
    if plan.export:
        _export(network, plan.recipe, context)
    with whole_file(context.out / CARD_FILE) as partial:
        partial.write_text(model_card(spec), encoding="utf-8", errors="backslashreplace")
    write_spec(spec, context.out)


def _export(network: TaggerNetwork, recipe: Recipe, context: RunContext) -> None:
    context.log.say(f"[dim]writing {ONNX_FILE} and checking it against torch …[/]")
    try:
        export_network(network, context.out / ONNX_FILE, size=recipe.preprocess.size)
    except TaggerError as error:  # the tagger is complete without it: it runs in torch
        context.log.event("export", problem=str(error))
        context.log.say(f"[yellow]no {ONNX_FILE} was written: {escape(str(error))}[/]")


def _word_vectors(network: TaggerNetwork, classes: tuple[str, ...]) -> LabelVectors | None:
    """Give the vectors of the classes' words; None where the head has no words."""
    words = network.head.class_words()
    return None if words is None else LabelVectors(classes, words.by_class().cpu().numpy())


def _word_form(network: TaggerNetwork, recipe: Recipe) -> WordForm | None:
    """Say how the tagger scores any labels; None where it knows only its own."""
    words = network.head.class_words()
    if words is None or not network.head.takes_words:
        return None
    return WordForm(
        source=resolved_source(recipe.words.source),
        places=tuple(words.slots.tolist()),
        group_size=words.group_size,
        fixed_queries=words.fixed_queries,
        grouping=words.grouping,
        grouping_seed=words.grouping_seed,
    )
