"""The parts of a training's data: what it learns from, what it is watched on, what its thresholds come from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray

from tagloom.cores import usable_cores
from tagloom.data.reading import check_broken, read_pictures
from tagloom.data.table import LabelTable
from tagloom.errors import DataError, ImageError
from tagloom.models.heads.scale import FeatureScale
from tagloom.models.network import TaggerNetwork
from tagloom.recipe import Recipe
from tagloom.training.features.batches import Batches, FeatureBatches, ImageBatches
from tagloom.training.features.cache import CachedFeatures
from tagloom.training.features.extract import extract_features
from tagloom.training.features.views import PLAIN, View, views_to_learn_from
from tagloom.training.log import RunLog
from tagloom.training.signals import StopRequest
from tagloom.training.tables import Tables

Rows: TypeAlias = NDArray[np.int64]

ALLOW_MORE = "--set data.max_broken=0.2"
SCALE_IMAGES = 2048  # as many are enough for a mean and a deviation per channel


@dataclass(frozen=True)
class Parts:
    """Batches of each part, and the images of any part that cannot be read.

    Attributes:
        train: What is learned from.
        held: Held aside from the training table, for thresholds; None when nothing is.
        val: The validation table; None without one.
        broken: Images that were left out, with what is wrong.
        learned: How many images are learned from.
        held_aside: How many are held aside.
    """

    train: Batches
    held: Batches | None
    val: Batches | None
    broken: list[ImageError]
    learned: int
    held_aside: int


def cached_parts(
    network: TaggerNetwork,
    tables: Tables,
    recipe: Recipe,
    *,
    cache_folder: Path,
    device: torch.device,
    stop: StopRequest,
    log: RunLog,
) -> Parts:
    """Extract the features of all images once, and make batches of them."""
    training = recipe.training
    broken: list[ImageError] = []

    def features_of(part: LabelTable, what: str, view: View = PLAIN) -> tuple[Rows, CachedFeatures]:
        label = f"features of {what}" + (f", {view}" if str(view) else "")
        # What is seen in another view was read a moment ago, so there all of it must be.
        allowed = recipe.data.max_broken if view == PLAIN else 0.0
        found = extract_features(
            network,
            [part.path(row) for row in range(len(part))],
            recipe.preprocess,
            cache_folder=cache_folder,
            device=device,
            stop=stop,
            view=view,
            check=lambda errors: check_broken(errors, len(part), allowed, part.source, ALLOW_MORE),
            progress=lambda done, total: log.work(label, done, total),
        )
        log.event("features", part=what, images=len(found.rows), computed=found.computed, view=str(view))
        if not found.computed:
            log.say(f"[dim]{label}: all {len(found.rows)} from the cache[/]")
        broken.extend(error for _, error in found.broken)
        return found.rows, found.features

    def batches(part: LabelTable, views: Sequence[CachedFeatures], chances: Sequence[float] = (1.0,)) -> FeatureBatches:
        return FeatureBatches(views, part, batch_size=training.batch_size, seed=training.seed, chances=chances)

    readable, features = features_of(tables.table, "training images")
    table = tables.table.select(readable)
    learn, held = _sides(table, tables.aside[readable], recipe, log)
    seen = views_to_learn_from(recipe.augment, training.cached_views)
    views = [features.select(learn)]
    views += [features_of(table.select(learn), "training images", view)[1] for view, _ in seen[1:]]
    train = batches(table.select(learn), views, [chance for _, chance in seen])
    held_batches = None if held is None else batches(table.select(held), [features.select(held)])
    val_batches = None
    if tables.val is not None:
        readable, features = features_of(tables.val, "validation images")
        val_batches = batches(tables.val.select(readable), [features])
    if training.standardise:
        _fit_scales(network, lambda rows: views[0].gather(np.asarray(rows)), len(views[0]), training.seed)
    return Parts(train, held_batches, val_batches, broken, len(learn), 0 if held is None else len(held))


def image_parts(
    network: TaggerNetwork,
    tables: Tables,
    recipe: Recipe,
    *,
    cache_folder: Path,
    device: torch.device,
    stop: StopRequest,
    log: RunLog,
) -> Parts:
    """Look at every image once, leave out the unreadable ones, and make batches of pictures."""
    training = recipe.training
    broken: list[ImageError] = []

    def readable_rows(part: LabelTable, what: str) -> Rows:
        errors = _unreadable(part, what, recipe, stop, log)
        check_broken(errors, len(part), recipe.data.max_broken, part.source, ALLOW_MORE)
        broken.extend(error for _, error in errors)
        return np.setdiff1d(np.arange(len(part)), [row for row, _ in errors])

    def batches(part: LabelTable) -> ImageBatches:
        return ImageBatches(
            part,
            recipe.preprocess,
            recipe.augment,
            batch_size=training.batch_size,
            seed=training.seed,
            workers=training.workers,
        )

    readable = readable_rows(tables.table, "training images")
    table = tables.table.select(readable)
    learn, held = _sides(table, tables.aside[readable], recipe, log)
    train = batches(table.select(learn))
    held_batches = None if held is None else batches(table.select(held))
    val_batches = None
    if tables.val is not None:
        val_batches = batches(tables.val.select(readable_rows(tables.val, "validation images")))
    if training.standardise and recipe.backbone.frozen:
        network.to(device)
        _fit_scales(network, lambda rows: _summaries(network, train, rows, device), len(learn), training.seed)
    return Parts(train, held_batches, val_batches, broken, len(learn), 0 if held is None else len(held))


def _sides(table: LabelTable, aside: NDArray[np.bool_], recipe: Recipe, log: RunLog) -> tuple[Rows, Rows | None]:
    """Part the rows of the readable images into those to learn from and those held aside, None when there are none."""
    learn, held = np.flatnonzero(~aside), np.flatnonzero(aside)
    if not len(learn):
        raise DataError(f"{table.source}: no image is left to learn from: all are unreadable or held aside.")
    if table.select(held).positive.nnz:
        return learn, held
    if recipe.data.holdout > 0:
        log.say("[yellow]no image held aside has a label, so thresholds are not chosen.[/]")
    return learn, None


def _unreadable(
    part: LabelTable, what: str, recipe: Recipe, stop: StopRequest, log: RunLog
) -> list[tuple[int, ImageError]]:
    """Decode every image once; there is no other way to know that it can be."""
    errors: list[tuple[int, ImageError]] = []
    done = 0
    paths = (part.path(row) for row in range(len(part)))
    for batch in read_pictures(paths, recipe.preprocess, batch_size=64, threads=usable_cores()):
        errors.extend(batch.errors)
        done += len(batch.places) + len(batch.errors)
        log.work(f"looking at {what}", done, len(part))
        stop.leave_if_requested()
    return errors


def _summaries(
    network: TaggerNetwork, train: ImageBatches, rows: list[int], device: torch.device
) -> list[NDArray[Any]]:
    """Run some training images through the frozen backbone, unaugmented."""
    paths = (train.paths[row] for row in rows)
    with torch.no_grad():
        parts = [
            [value.cpu().numpy() for value in network.summarise(torch.from_numpy(batch.pixels).to(device))]
            for batch in read_pictures(paths, train.preprocess, threads=usable_cores())
        ]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _fit_scales(
    network: TaggerNetwork, gather: Callable[[list[int]], list[NDArray[Any]]], count: int, seed: int
) -> None:
    """Fit the head's feature scales to a sample of the training images."""
    rows = np.sort(np.random.default_rng(seed).permutation(count)[:SCALE_IMAGES])
    blocks = [gather(rows[first : first + 256].tolist()) for first in range(0, len(rows), 256)]
    for number, scale in enumerate(network.head.scales):
        cast(FeatureScale, scale).fit(torch.from_numpy(block[number]) for block in blocks)
