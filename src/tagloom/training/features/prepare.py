"""From a run's tables to its batches: every image is read once, and those that cannot be read are left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape

from tagloom.cores import usable_cores
from tagloom.data.absent import presume_negative
from tagloom.data.reading import check_broken, read_pictures
from tagloom.data.table import LabelTable
from tagloom.errors import DataError, ImageError
from tagloom.models.network import TaggerNetwork
from tagloom.recipe import Recipe
from tagloom.training.context import RunContext
from tagloom.training.features.batches import Batches
from tagloom.training.features.cache import CachedFeatures
from tagloom.training.features.extract import Extraction, Workers, extract_features, gather_errors, hash_files
from tagloom.training.features.feature_batches import FeatureBatches
from tagloom.training.features.picture_batches import PictureBatches
from tagloom.training.features.standardise import standardise_features, standardise_pictures
from tagloom.training.features.views import PLAIN, View, views_to_learn_from
from tagloom.training.tables import Tables

Rows: TypeAlias = NDArray[np.int64]
Contents: TypeAlias = NDArray[np.uint8]

TRAINING = "training images"
VALIDATION = "validation images"
HASH_BYTES = 16  # of `content_hash`
ALLOW_MORE = "--set data.max_broken=0.2"


@dataclass(frozen=True)
class RunBatches:
    """The batches of a run.

    Attributes:
        learn: The images to learn from.
        held_out: Those held out of the training table; None if no labelled image is.
        val: Those of the validation table; None without one.
        broken: The images that were left out, and what is wrong with them.
        contents: (images, bytes of a hash) uint8, what each image of the training and then of the validation table
            holds; 0 where it cannot be read.
    """

    learn: Batches
    held_out: Batches | None
    val: Batches | None
    broken: list[ImageError]
    contents: Contents


def make_batches(network: TaggerNetwork, tables: Tables, recipe: Recipe, context: RunContext) -> RunBatches:
    """Read all images of a run and make its batches, of cached features or of pictures.

    With a frozen backbone this also fits the head's feature scales, unless the recipe says otherwise.
    """
    make = _feature_batches if recipe.from_cache else _picture_batches
    return make(network, tables, recipe, context)


def _feature_batches(network: TaggerNetwork, tables: Tables, recipe: Recipe, context: RunContext) -> RunBatches:
    """Extract the features of all images once, and make batches of them."""
    with context.workers() as workers:
        return _extracted_batches(workers, network, tables, recipe, context)


def _extracted_batches(
    workers: Workers | None, network: TaggerNetwork, tables: Tables, recipe: Recipe, context: RunContext
) -> RunBatches:
    """Extract features here, or have workers do it, and make batches of them."""
    training = recipe.training

    def batches(table: LabelTable, views: Sequence[CachedFeatures], chances: Sequence[float] = (1.0,)) -> Batches:
        return FeatureBatches(
            views,
            table,
            batch_size=training.batch_size,
            seed=training.seed,
            chances=chances,
            world=context.world,
        )

    def extract(table: LabelTable, what: str, view: View = PLAIN) -> Extraction:
        return _extract(network, table, what, view, recipe, context, workers)

    found = extract(tables.table, TRAINING)
    table = tables.table.select(found.rows)
    learn, held_out = _split(table, tables.held_out[found.rows], recipe, context)
    to_learn = table.select(learn)
    seen = views_to_learn_from(recipe.augment, training.cached_views)
    views = [found.features.select(learn)]
    views += [extract(to_learn, TRAINING, view).features for view, _ in seen[1:]]
    broken, val = found.broken, None
    contents = [_contents(tables.table, found.rows, found.keys)]
    if tables.val is not None:
        found_val = extract(tables.val, VALIDATION)
        broken = broken + found_val.broken
        contents.append(_contents(tables.val, found_val.rows, found_val.keys))
        readable_val = tables.val.select(found_val.rows)
        val = batches(readable_val, [found_val.features]) if _can_measure(readable_val, context) else None
    if training.standardise:
        standardise_features(network, views[0], training.seed)
    return RunBatches(
        learn=batches(to_learn, views, [chance for _, chance in seen]),
        held_out=None
        if held_out is None
        else batches(_to_measure(table, held_out, tables), [found.features.select(held_out)]),
        val=val,
        broken=[error for _, error in broken],
        contents=np.concatenate(contents),
    )


def _picture_batches(network: TaggerNetwork, tables: Tables, recipe: Recipe, context: RunContext) -> RunBatches:
    """Decode every image once, leave out the unreadable ones, and make batches of pictures."""
    training = recipe.training

    def batches(table: LabelTable) -> PictureBatches:
        return PictureBatches(
            table,
            recipe.preprocess,
            recipe.augment,
            batch_size=training.batch_size,
            seed=training.seed,
            workers=training.workers,
            world=context.world,
        )

    readable, broken = _readable(tables.table, TRAINING, recipe, context)
    table = tables.table.select(readable)
    learn, held_out = _split(table, tables.held_out[readable], recipe, context)
    to_learn, val = batches(table.select(learn)), None
    contents = [_contents(tables.table, readable, _hashed(table, context))]
    if tables.val is not None:
        readable_val, broken_val = _readable(tables.val, VALIDATION, recipe, context)
        broken = broken + broken_val
        contents.append(_contents(tables.val, readable_val, _hashed(tables.val.select(readable_val), context)))
        val_table = tables.val.select(readable_val)
        val = batches(val_table) if _can_measure(val_table, context) else None
    if training.standardise and recipe.backbone.frozen:
        standardise_pictures(network, to_learn, training.seed, context.device)
    return RunBatches(
        learn=to_learn,
        held_out=None if held_out is None else batches(_to_measure(table, held_out, tables)),
        val=val,
        broken=broken,
        contents=np.concatenate(contents),
    )


def _split(
    table: LabelTable, held_out: NDArray[np.bool_], recipe: Recipe, context: RunContext
) -> tuple[Rows, Rows | None]:
    """Split the rows of the readable images into those to learn from and those held out, None without a label."""
    learn, held = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    if not len(learn):
        raise DataError(f"{table.source}: no image is left to learn from: all are unreadable or held out.")
    if table.select(held).positive.nnz:
        return learn, held
    if recipe.data.holdout > 0:
        context.log.say("[yellow]no held-out image has a label, so thresholds are not chosen.[/]")
    return learn, None


def _can_measure(val: LabelTable, context: RunContext) -> bool:
    """Say whether a readable validation image has a label. A teacher of a rare class may lose the only one it had."""
    if val.positive.nnz:
        return True
    context.log.say("[yellow]no validation image that can be read has a label, so nothing is measured on them.[/]")
    return False


def _to_measure(table: LabelTable, held_out: Rows, tables: Tables) -> LabelTable:
    """Select the images held out. Without negatives no threshold could be chosen, so silence counts as absence."""
    return presume_negative(table.select(held_out), tables.silent)


def _contents(table: LabelTable, rows: Rows, keys: Sequence[str | None]) -> Contents:
    """Arrange the content hashes of some rows by the rows of their table; the others are 0."""
    contents = np.zeros((len(table), HASH_BYTES), np.uint8)
    for row, key in zip(rows.tolist(), keys, strict=True):
        if key is not None:
            contents[row] = np.frombuffer(bytes.fromhex(key), np.uint8)
    return contents


def _hashed(table: LabelTable, context: RunContext) -> list[str | None]:
    """Hash the files of all images; None for one that has vanished since it was decoded."""
    found: list[str | ImageError] = []
    with context.world.leaving_together(context.stop):
        found = hash_files([table.image(row) for row in context.world.share(range(len(table)))], context.stop)
    keys = [None if isinstance(key, ImageError) else key for key in found]
    return [key for share in context.world.gather(keys) for key in share]


def _extract(
    network: TaggerNetwork,
    table: LabelTable,
    what: str,
    view: View,
    recipe: Recipe,
    context: RunContext,
    workers: Workers | None,
) -> Extraction:
    """Extract the features of a table's images in one view, and report it."""
    label = f"features of {what}" + (f", {view}" if str(view) else "")
    # Images in other views were read a moment ago in the plain view, so all of them must be readable.
    allowed = recipe.data.max_broken if view == PLAIN else 0.0
    found = extract_features(
        network,
        [table.image(row) for row in range(len(table))],
        recipe.preprocess,
        cache_folder=context.cache_folder,
        device=context.device,
        stop=context.stop,
        world=context.world,
        workers=workers,
        view=view,
        maps=recipe.training.cached_maps,
        check=lambda errors: _check_broken(errors, table, what, allowed),
        reading=context.progress(f"reading {what}"),
        progress=context.progress(label),
        note=lambda text: _note_damage(text, context),
    )
    context.log.event("features", part=what, images=len(found.rows), computed=found.computed, view=str(view))
    if not found.computed:
        context.log.say(f"[dim]{label}: all {len(found.rows)} from the cache[/]")
    return found


def _note_damage(text: str, context: RunContext) -> None:
    context.log.event("cache", note=text)
    context.log.say(f"[yellow]{escape(text)}[/]")


def _check_broken(errors: list[tuple[int, ImageError]], table: LabelTable, what: str, allowed: float) -> None:
    """Refuse a table with too many unreadable images. Where all may be, as a teacher's, none has to validate."""
    if what != VALIDATION or allowed < 1:
        check_broken(errors, len(table), allowed, table.source, ALLOW_MORE)


def _readable(table: LabelTable, what: str, recipe: Recipe, context: RunContext) -> tuple[Rows, list[ImageError]]:
    """Give the rows whose images can be read, and the errors of the others; refuse a table with too many."""
    errors = _unreadable(table, what, recipe, context)
    _check_broken(errors, table, what, recipe.data.max_broken)
    return np.setdiff1d(np.arange(len(table)), [row for row, _ in errors]), [error for _, error in errors]


def _unreadable(table: LabelTable, what: str, recipe: Recipe, context: RunContext) -> list[tuple[int, ImageError]]:
    """Decode every image once; there is no other way to know that it can be decoded."""
    errors: list[tuple[int, ImageError]] = []
    done, progress = 0, context.stoppable_progress(f"reading {what}")
    mine = context.world.share(range(len(table)))
    with context.world.leaving_together(context.stop):
        for batch in read_pictures(map(table.image, mine), recipe.preprocess, batch_size=64, threads=usable_cores()):
            errors.extend((mine[index], error) for index, error in batch.errors)
            done += len(batch.indices) + len(batch.errors)
            progress(done, len(mine))
    return gather_errors(errors, context.world)
