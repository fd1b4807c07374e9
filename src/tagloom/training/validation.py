"""Running a network over labelled images, after every epoch and at the end of a training."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tagloom.metrics import score
from tagloom.metrics.blocks import Known, Targets
from tagloom.progress import Progress, no_progress
from tagloom.recipe import Recipe
from tagloom.recipe.names import METRIC_NAMES, Task
from tagloom.scoring.calibration import Activation, to_scores
from tagloom.scratch import scratch_array
from tagloom.training.context import RunContext
from tagloom.training.features.batches import Batches
from tagloom.training.features.prepare import VALIDATION, RunBatches
from tagloom.training.products import fast_products
from tagloom.training.ranks import ALONE, World
from tagloom.training.tasks.supervised import Forward

SENT_AT_ONCE = 1 << 24  # logits of a process: 64 MB
MOST_WATCHED = 10_000  # images that are measured after every epoch


class Scored(NamedTuple):
    """Logits of a table's readable images with their labels, each (n, N).

    Logits that are too large for memory are in a file; labels are as sparse as the table's.

    Attributes:
        logits: Before calibration.
        targets: The positive pairs.
        known: The known pairs; None where all are known.
    """

    logits: NDArray[np.float32]
    targets: Targets
    known: Known


def score_batches(
    forward: Forward,
    batches: Batches,
    *,
    folder: Path,
    device: torch.device,
    world: World = ALONE,
    progress: Progress = no_progress,
) -> Scored:
    """Run every image once and give its logits with its labels. Arguments as for `score_rows`."""
    table = batches.labels.table
    read, logits = score_rows(forward, batches, folder=folder, device=device, world=world, progress=progress)
    return Scored(logits, table.positive[read], table.known_pairs(read))


def score_rows(
    forward: Forward,
    batches: Batches,
    *,
    folder: Path,
    device: torch.device,
    world: World = ALONE,
    progress: Progress = no_progress,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Run every image once and give the rows of those that could be read, (n,), with their logits, (n, N).

    Each process of `world` runs its share, so that no image counts twice. The first one gets all, in the order of the
    table, and the others get none.

    Args:
        forward: From a batch's inputs to its logits.
        batches: The images.
        folder: Where logits are kept that are too large for memory.
        device: Where to compute.
        world: The processes that share the images.
        progress: Called with batches done and batches to do.
    """
    table = batches.labels.table
    most = min(len(table), len(table) // world.size + len(batches))  # of a share of every batch, rounded up
    logits = scratch_array((most, len(table.classes)), np.float32, folder)
    rows: list[NDArray[np.int64]] = []
    filled = 0
    with torch.no_grad(), fast_products(device):
        for done, batch in enumerate(batches.in_order(), start=1):
            if count := len(batch.rows):
                logits[filled : filled + count] = forward(*batch.to(device).inputs).float().cpu().numpy()
                rows.append(batch.rows.numpy())
                filled += count
            progress(done, len(batches))
    return _joined(np.concatenate([np.empty(0, np.int64), *rows]), logits[:filled], folder, world)


def _joined(
    rows: NDArray[np.int64], logits: NDArray[np.float32], folder: Path, world: World
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Give the rows and logits of all processes to the first one, in the order of the table.

    They are sent in blocks: the logits of all may be larger than memory.
    """
    if world.size == 1:
        return rows, logits
    (most,) = world.largest(len(rows))
    read = np.sort(world.collect(rows))
    joined = scratch_array((len(read), logits.shape[1]), np.float32, folder)
    at_once = max(1, SENT_AT_ONCE // logits.shape[1])
    for first in range(0, most, at_once):
        some = slice(first, first + at_once)
        joined[np.searchsorted(read, world.collect(rows[some]))] = world.collect(logits[some])
    return read, joined


def score_part(batches: Batches | None, forward: Forward, what: str, context: RunContext) -> Scored | None:
    """Score the images of one part of a run, and report progress; None where the part is empty."""
    if batches is None:
        return None
    progress = context.progress(f"scoring {what}")
    return score_batches(
        forward, batches, folder=context.out, device=context.device, world=context.world, progress=progress
    )


class Watched(NamedTuple):
    """The images that are measured after every epoch; `batches` is None if there are none."""

    batches: Batches | None
    what: str


def choose_watched(batches: RunBatches, seed: int, context: RunContext) -> Watched:
    """Choose what is watched during training: the validation images, or without any the images held out.

    Of very many, a sample is watched, the same in every epoch; the finished tagger is measured on all.
    """
    part, what = (batches.val, VALIDATION) if batches.val is not None else (batches.held_out, "held-out images")
    if part is None:
        return Watched(None, what)
    count = len(part.labels.table)
    if count <= MOST_WATCHED:
        return Watched(part, what)
    rows = np.sort(np.random.default_rng(seed).choice(count, MOST_WATCHED, replace=False))
    context.log.say(
        f"[dim]after every epoch: metrics of a sample of {MOST_WATCHED:,} of {count:,} {what}; at the end: of all[/]"
    )
    return Watched(part.select(rows), f"a sample of {what}")


def watch(watched: Watched, forward: Forward, recipe: Recipe, context: RunContext) -> dict[str, float]:
    """Measure what is watched during training. All processes are told the same."""
    scored = score_part(watched.batches, forward, watched.what, context)
    if scored is None:
        return {}
    return context.world.from_first(lambda: headline(scored, task=recipe.task, activation=recipe.activation))


def headline(scored: Scored, *, task: Task, activation: Activation) -> dict[str, float]:
    """Give the few metrics that are watched while training."""
    result = score(to_scores(scored.logits, activation), scored.targets, scored.known, task=task)
    return {name: float(result[name]) for name in METRIC_NAMES if name in result}
