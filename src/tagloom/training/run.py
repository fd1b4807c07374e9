"""A training from table to tagger folder: the one place where all parts meet."""

import csv
import hashlib
import json
import os
import socket
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from rich.console import Console
from rich.markup import escape
from torch import nn

import tagloom
from tagloom.data.table import LabelTable
from tagloom.errors import TaggerError, TagloomError
from tagloom.losses import create_loss
from tagloom.models.heads import Head, needs_words
from tagloom.models.network import TaggerNetwork, build_network, count_parameters, pick_device, save_weights
from tagloom.models.onnx_export import export_onnx
from tagloom.models.start import start_from
from tagloom.recipe import Recipe
from tagloom.recipe.parts import WordSettings
from tagloom.tagger.card import model_card
from tagloom.tagger.spec import CARD_FILE, ONNX_FILE, SPEC_FILE, WORDS_FILE, TaggerSpec, WordForm, write_spec
from tagloom.training.checkpoint import CHECKPOINT_FOLDER, CheckpointStore
from tagloom.training.decisions import decide, measure
from tagloom.training.features.batches import Batches, ImageBatches
from tagloom.training.features.prepare import Parts, cached_parts, image_parts
from tagloom.training.log import RunLog
from tagloom.training.loop import LoopSettings, fit
from tagloom.training.optimiser import create_optimiser
from tagloom.training.plan import RunPlan, check_options
from tagloom.training.signals import StopRequest
from tagloom.training.tables import Tables, load_tables
from tagloom.training.tasks.augmented_queries import AugmentedQueriesTask, check_augmented
from tagloom.training.tasks.mixed_pictures import MixedPicturesTask
from tagloom.training.tasks.supervised import Forward, Loss, SupervisedTask, Task
from tagloom.training.validation import Scored, headline, score_batches
from tagloom.words import encode_labels
from tagloom.words.sources import place_of_source
from tagloom.words.vector_files import LabelVectors, write_vectors

BROKEN_FILE = "broken.csv"


class TrainingResult(NamedTuple):
    """What came out.

    Attributes:
        classes: Label names, in the order of the figures.
        metrics: `tagloom.metrics.score` on validation data ("validation") and on the part held aside ("held_aside").
    """

    classes: tuple[str, ...]
    metrics: dict[str, dict[str, Any]]


class Materials(NamedTuple):
    """What a task is made of, once the data is there.

    Attributes:
        forward: Gives the logits of a batch's inputs.
        loss: The recipe's.
        head: The head that `forward` runs.
        words: How its words are varied, where it has any.
        batches: What is learned from.
        classes: Label names, in the order of the logits.
        device: Where it is computed.
        stop: Whether somebody asked to stop.
        log: What the run tells.
    """

    forward: Forward
    loss: Loss
    head: Head
    words: WordSettings
    batches: Batches
    classes: tuple[str, ...]
    device: torch.device
    stop: StopRequest
    log: RunLog


MakeTask: TypeAlias = Callable[[Materials], Task]


def supervised(materials: Materials) -> Task:
    """Make the task of plain training, with words varied where the recipe asks for it."""
    words = materials.words
    if not words.augmented:
        return SupervisedTask(materials.forward, materials.loss)
    return AugmentedQueriesTask(
        materials.forward,
        materials.loss,
        materials.head,
        noise=words.query_noise,
        random_queries=words.random_queries,
        random_present=words.random_label == "present",
    )


def train(
    plan: RunPlan,
    out: Path,
    *,
    resume: bool = False,
    device: str = "auto",
    cache_folder: Path,
    console: Console | None = None,
    tensorboard: bool = False,
    make_task: MakeTask = supervised,
) -> TrainingResult:
    """Train a tagger and write its folder.

    Args:
        plan: Data, validation data and recipe.
        out: The tagger folder to make. A run that was stopped there goes on with `resume`.
        resume: Go on where the run in `out` stopped.
        device: "auto", "cpu", "cuda", "mps".
        cache_folder: Where features of frozen backbones are kept.
        console: Where progress is shown; None for silence.
        tensorboard: Also write TensorBoard events.
        make_task: Makes what a step computes.

    Returns:
        The classes, and the metrics on validation data and on the part held aside.
    """
    if plan.distill and make_task is supervised:
        raise TagloomError(f"{out}: is the run of a student. Go on with: tagloom distill --resume --out {out}")
    _open_folder(out, resume)
    recipe = plan.recipe
    check_options(recipe)
    tables = load_tables(plan)
    table = tables.table
    place = pick_device(device)
    if not resume:
        plan.write(out)
    with StopRequest() as stop, RunLog(out, console, tensorboard) as log:
        size = {"images": len(table), "classes": len(table.classes)}
        where = {"device": str(place), "host": socket.gethostname(), "process": os.getpid()}
        log.event("start", **size, **where, version=tagloom.__version__)
        network = first_network(plan, table.classes, cache_folder, log)
        check_augmented(network.head, recipe.words)
        if recipe.task == "multi" and (np.diff(table.positive.indptr) == 1).all():
            log.say("[yellow]every image has exactly one label: did you mean --task single?[/]")
        make_parts = cached_parts if recipe.from_cache else image_parts
        parts = make_parts(network, tables, recipe, cache_folder=cache_folder, device=place, stop=stop, log=log)
        _note_broken(parts, out, log)
        # From a cache only the head is run; otherwise pictures go through the whole network.
        module: nn.Module = network.head if recipe.from_cache else network
        forward = network.head.classify if recipe.from_cache else network
        network.to(place)
        loss = create_loss(recipe.loss.name, **recipe.loss.options)
        task = make_task(
            Materials(forward, loss, network.head, recipe.words, parts.train, table.classes, place, stop, log)
        )
        if recipe.augment.mixup or recipe.augment.cutmix:
            mixing = {"mixup": recipe.augment.mixup, "cutmix": recipe.augment.cutmix}
            task = MixedPicturesTask(task, **mixing, competing=recipe.activation == "softmax")
        history = fit(
            module,
            task,
            parts.train,
            create_optimiser(
                module,
                name=recipe.optimiser.name,
                learning_rate=recipe.optimiser.learning_rate,
                weight_decay=recipe.optimiser.weight_decay,
                momentum=recipe.optimiser.momentum,
                second_momentum=recipe.optimiser.second_momentum,
                backbone_factor=recipe.optimiser.backbone_factor,
            ),
            loop_settings(recipe),
            validate=lambda: _watch(parts, forward, recipe, place),
            store=(store := CheckpointStore(out, _identity(plan, tables))),
            log=log,
            stop=stop,
            device=place,
        )
        _note_skipped(parts, log)
        network.eval()
        held = _score(parts.held, forward, place)
        validation = _score(parts.val, forward, place)
        metrics = _finish(network, table, recipe, out, plan, parts, held, validation, len(history), log)
        store.remove()
        log.event("finish", **{part: figures["mAP"] for part, figures in metrics.items()})
    return TrainingResult(table.classes, metrics)


def first_network(plan: RunPlan, classes: tuple[str, ...], cache_folder: Path, log: RunLog) -> TaggerNetwork:
    """Build a plan's network as it is before its first step."""
    recipe = plan.recipe
    vectors = None
    if needs_words(recipe.head.name, recipe.head.options):
        vectors = torch.from_numpy(encode_labels(classes, recipe.words.source, cache_folder=cache_folder))
    torch.manual_seed(recipe.training.seed)
    network = build_network(
        backbone=recipe.backbone.name,
        weights=recipe.backbone.weights,
        head=recipe.head.name,
        head_options=recipe.head.options,
        classes=len(classes),
        size=recipe.preprocess.size,
        frozen=recipe.backbone.frozen,
        drop_path=recipe.backbone.drop_path,
        word_vectors=vectors,
    )
    if plan.start:
        head = recipe.head
        whole = start_from(network, Path(plan.start), classes=classes, head=head.name, head_options=head.options)
        log.event("start_from", folder=plan.start, head=whole)
        if not whole:
            log.say("[yellow]only the backbone is taken over: the labels, the head or its options differ[/]")
    return network


def loop_settings(recipe: Recipe) -> LoopSettings:
    """Pick out of a recipe what the loop needs."""
    training, optimiser = recipe.training, recipe.optimiser
    return LoopSettings(
        epochs=training.epochs,
        learning_rate=optimiser.learning_rate,
        schedule=optimiser.schedule,
        warmup=optimiser.warmup,
        clip_norm=optimiser.clip_norm,
        accumulate=training.accumulate,
        ema=training.ema,
        precision=training.precision,
        select=training.select,
        metric=training.metric,
        patience=training.patience,
        seed=training.seed,
        checkpoint_minutes=training.checkpoint_minutes,
    )


def _open_folder(out: Path, resume: bool) -> None:
    if (out / SPEC_FILE).exists():
        raise TagloomError(f"{out}: holds a finished tagger. Name another --out, or delete it first.")
    if (out / CHECKPOINT_FOLDER).exists() and not resume:
        raise TagloomError(f"{out}: holds a run that was begun. Go on with --resume, or name another --out.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TagloomError(f"{out}: cannot be made ({error}). Name another --out.") from error


def _note_broken(parts: Parts, out: Path, log: RunLog) -> None:
    """List the images that were left out, by path and reason."""
    if not parts.broken:
        return
    with (out / BROKEN_FILE).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "problem"])
        writer.writerows((error.path, error.finding) for error in parts.broken)
    log.event("broken", count=len(parts.broken))
    listed = escape(str(out / BROKEN_FILE))
    log.say(f"[yellow]{len(parts.broken)} images cannot be read and are left out; they are listed in {listed}[/]")


def _note_skipped(parts: Parts, log: RunLog) -> None:
    """List the images that could be read before the first epoch and no longer later."""
    for batches in (parts.train, parts.held, parts.val):
        if isinstance(batches, ImageBatches) and batches.skipped:
            log.event("skipped", images=sorted(batches.skipped.values()))
            log.say(
                f"[yellow]{len(batches.skipped)} images could no longer be read and were passed over; see log.jsonl[/]"
            )


def _watch(parts: Parts, forward: Any, recipe: Recipe, device: torch.device) -> dict[str, float]:
    """Score what is watched while training: validation data, or else the part held aside."""
    scored = _score(parts.held if parts.val is None else parts.val, forward, device)
    return {} if scored is None else headline(scored, task=recipe.task, activation=recipe.activation)


def _score(batches: Batches | None, forward: Any, device: torch.device) -> Scored | None:
    return None if batches is None else score_batches(forward, batches, device=device)


def _finish(
    network: TaggerNetwork,
    table: LabelTable,
    recipe: Recipe,
    out: Path,
    plan: RunPlan,
    parts: Parts,
    held: Scored | None,
    validation: Scored | None,
    epochs: int,
    log: RunLog,
) -> dict[str, Any]:
    """Calibrate, choose thresholds, score, and write the folder; `tagger.json` last, since it says "finished"."""
    decided = decide(held, recipe, len(table.classes))
    if recipe.calibration.kind != "none" and decided.calibration is None:
        log.say("[yellow]no labelled image is held aside, so scores are not calibrated.[/]")
    metrics: dict[str, Any] = {
        name: measure(scored, recipe, decided)
        for name, scored in (("validation", validation), ("held_aside", held))
        if scored is not None
    }
    positives = np.asarray(table.positive.sum(axis=0)).ravel()
    total, trained = count_parameters(network)
    spec = TaggerSpec(
        classes=table.classes,
        preprocess=recipe.preprocess,
        backbone=recipe.backbone.name,
        head=recipe.head.name,
        head_options=recipe.head.options,
        task=recipe.task,
        activation=recipe.activation,
        calibration=decided.calibration,
        thresholds=tuple(float(value) for value in decided.thresholds),
        words=_word_form(network, recipe),
        recipe=recipe.to_dict(),
        metrics=metrics,
        data={
            "training_table": plan.data,
            "validation_table": plan.val or "none",
            "started_from": plan.start or "none",
            "distilled_from": f"teachers of the kinds {', '.join(plan.distill.kinds)}" if plan.distill else "none",
            "images_learned_from": parts.learned,
            "images_held_aside": parts.held_aside,
            "unreadable_images_left_out": len(parts.broken),
            "epochs": epochs,
            "parameters": total,
            "trained_parameters": trained,
            "classes_without_positive": [table.classes[place] for place in np.flatnonzero(positives == 0)],
        },
        version=tagloom.__version__,
    )
    save_weights(network, out)
    if (words := network.head.class_words()) is not None:
        write_vectors(out / WORDS_FILE, LabelVectors(table.classes, words.by_class().cpu().numpy()))
    if plan.export:
        _export(network, out, recipe, log)
    (out / CARD_FILE).write_text(model_card(spec), encoding="utf-8")
    write_spec(spec, out)
    return metrics


def _export(network: TaggerNetwork, out: Path, recipe: Recipe, log: RunLog) -> None:
    log.say("[dim]writing model.onnx and checking it against torch …[/]")
    try:
        export_onnx(network, out / ONNX_FILE, size=recipe.preprocess.size, words=network.word_input())
    except TaggerError as error:  # the tagger is whole without it: it runs in torch
        log.event("export", problem=str(error))
        log.say(f"[yellow]no model.onnx was written: {escape(str(error))}[/]")


def _word_form(network: TaggerNetwork, recipe: Recipe) -> WordForm | None:
    """Say how the tagger is asked for labels; None where it knows its own only."""
    words = network.head.class_words()
    if words is None or not network.head.takes_words:
        return None
    return WordForm(
        source=place_of_source(recipe.words.source),
        places=tuple(words.slots.tolist()),
        group_size=words.group_size,
        fixed_queries=words.fixed_queries,
        grouping=words.grouping,
        grouping_seed=words.grouping_seed,
    )


def _identity(plan: RunPlan, tables: Tables) -> str:
    """Name a run by all that decides its result, so that no checkpoint is taken up by another."""
    plan = plan.placed()  # as it is read back when the run is resumed
    distill = None if plan.distill is None else asdict(plan.distill)
    choices = [plan.recipe.to_dict(), plan.start or "", plan.classes, plan.images, distill]
    digest = hashlib.blake2b(json.dumps(choices, sort_keys=True).encode(), digest_size=16)
    digest.update(tables.aside.tobytes())
    for part in [tables.table] if tables.val is None else [tables.table, tables.val]:
        digest.update(part.fingerprint().encode())
    return digest.hexdigest()
