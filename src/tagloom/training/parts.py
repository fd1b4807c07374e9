"""The parts of a training's data: what it learns from, what it is watched on, what its thresholds come from."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch

from tagloom.data.reading import check_broken, read_pictures
from tagloom.data.table import LabelTable
from tagloom.data.transforms import Augment
from tagloom.errors import ImageError
from tagloom.inference.onnx import usable_cores
from tagloom.models.heads import Head
from tagloom.models.heads.scale import FeatureScale
from tagloom.models.tagger import TaggerNetwork
from tagloom.recipe import Recipe
from tagloom.training.batches import Batches, FeatureBatches, ImageBatches
from tagloom.training.cache import CachedFeatures
from tagloom.training.extract import extract_features
from tagloom.training.log import RunLog
from tagloom.training.signals import StopRequest

SCALE_IMAGES = 2048  # as many are enough for a mean and a deviation per channel


@dataclass(frozen=True)
class Parts:
    """Batches of each part, and the images of any part that cannot be read.

    Attributes:
        train: What is learned from.
        held: Held aside from the training table, for thresholds; None when nothing is.
        val: The validation table; None without one.
        broken: Images that were left out, with what is wrong.
    """

    train: Batches
    held: Batches | None
    val: Batches | None
    broken: list[ImageError]


def cached_parts(
    network: TaggerNetwork,
    table: LabelTable,
    val: LabelTable | None,
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

    def features_of(part: LabelTable, what: str, flip: bool) -> tuple[LabelTable, CachedFeatures]:
        label = f"features of {what}" + (", mirrored" if flip else "")
        found = extract_features(
            network,
            [part.path(row) for row in range(len(part))],
            recipe.preprocess,
            cache_folder=cache_folder,
            device=device,
            stop=stop,
            flip=flip,
            check=lambda errors: check_broken(errors, len(part), recipe.data.max_broken, part.source),
            progress=lambda done, total: log.work(label, done, total),
        )
        log.event("features", part=what, images=len(found.rows), computed=found.computed, mirrored=flip)
        if not found.computed:
            log.say(f"[dim]{label}: all {len(found.rows)} from the cache[/]")
        if not flip:
            broken.extend(error for _, error in found.broken)
        return part.select(found.rows), found.features

    def batches(part: LabelTable, views: list[CachedFeatures], flip: float = 0.0) -> FeatureBatches:
        return FeatureBatches(views, part, batch_size=training.batch_size, seed=training.seed, flip=flip)

    learn, held = _hold_aside(table, recipe)
    flips = [False, True] if recipe.augment.flip > 0 else [False]
    learned = [features_of(learn, "training images", flip) for flip in flips]
    held_batches = None if held is None else batches(*_one_view(features_of(held, "images held aside", False)))
    val_batches = None if val is None else batches(*_one_view(features_of(val, "validation images", False)))
    train = batches(learned[0][0], [features for _, features in learned], recipe.augment.flip)
    if training.standardise:
        _fit_scales(network, lambda row: train.views[0].gather(np.asarray(row)), len(train.views[0]), training.seed)
    return Parts(train, held_batches, val_batches, broken)


def image_parts(
    network: TaggerNetwork,
    table: LabelTable,
    val: LabelTable | None,
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

    def batches(part: LabelTable, what: str, augmentation: Augment) -> ImageBatches:
        errors = _unreadable(part, what, recipe, stop, log)
        check_broken(errors, len(part), recipe.data.max_broken, part.source)
        broken.extend(error for _, error in errors)
        good = np.setdiff1d(np.arange(len(part)), [row for row, _ in errors])
        return ImageBatches(
            part.select(good),
            recipe.preprocess,
            augmentation,
            batch_size=training.batch_size,
            seed=training.seed,
            workers=training.workers,
        )

    learn, held = _hold_aside(table, recipe)
    train = batches(learn, "training images", recipe.augment)
    held_batches = None if held is None else batches(held, "images held aside", Augment())
    val_batches = None if val is None else batches(val, "validation images", Augment())
    if training.standardise and recipe.backbone.frozen:
        network.to(device)
        _fit_scales(network, lambda row: _summaries(network, train, row, device), len(train.paths), training.seed)
    return Parts(train, held_batches, val_batches, broken)


def _hold_aside(table: LabelTable, recipe: Recipe) -> tuple[LabelTable, LabelTable | None]:
    if recipe.data.holdout == 0:
        return table, None
    return table.split(recipe.data.holdout, recipe.training.seed)


def _one_view(found: tuple[LabelTable, CachedFeatures]) -> tuple[LabelTable, list[CachedFeatures]]:
    return found[0], [found[1]]


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
) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    """Run some training images through the frozen backbone, unaugmented."""
    paths = (train.paths[row] for row in rows)
    parts = []
    with torch.no_grad():
        for batch in read_pictures(paths, train.preprocess, threads=usable_cores()):
            if batch.places:
                parts.append([value.cpu().numpy() for value in network.summarise(torch.from_numpy(batch.pixels).to(device))])
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _fit_scales(network: TaggerNetwork, gather: Callable[[list[int]], list[np.ndarray]], count: int, seed: int) -> None:  # type: ignore[type-arg]
    """Fit the head's feature scales to a sample of the training images."""
    rows = np.sort(np.random.default_rng(seed).permutation(count)[:SCALE_IMAGES])
    blocks = [gather(rows[first : first + 256].tolist()) for first in range(0, len(rows), 256)]
    for number, scale in enumerate(cast(Head, network.head).scales):
        cast(FeatureScale, scale).fit(torch.from_numpy(block[number]) for block in blocks)
