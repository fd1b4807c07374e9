"""Running a network over labelled images, after every epoch and at the end of a training."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tagloom.metrics import score
from tagloom.progress import Progress, no_progress
from tagloom.recipe import Recipe
from tagloom.recipe.names import METRIC_NAMES, Task
from tagloom.scoring.calibration import Activation, to_scores
from tagloom.training.context import RunContext
from tagloom.training.features.batches import Batches
from tagloom.training.features.prepare import RunBatches
from tagloom.training.tasks.supervised import Forward


class Scored(NamedTuple):
    """Logits of a table's readable images with their labels, each (n, N); `known` is None where all pairs are known."""

    logits: NDArray[np.float32]
    targets: NDArray[np.uint8]
    known: NDArray[np.bool_] | None


def score_batches(
    forward: Forward, batches: Batches, *, device: torch.device, progress: Progress = no_progress
) -> Scored:
    """Run every image once and give its logits with its labels."""
    logits, targets, known = [], [], []
    with torch.no_grad():
        for done, batch in enumerate(batches.in_order(), start=1):
            if len(batch.rows):
                logits.append(forward(*batch.to(device).inputs).float().cpu().numpy())
                targets.append(batch.targets.numpy().astype(np.uint8))
                if batch.known is not None:
                    known.append(batch.known.numpy())
            progress(done, len(batches))
    return Scored(np.concatenate(logits), np.concatenate(targets), np.concatenate(known) if known else None)


def score_part(batches: Batches | None, forward: Forward, what: str, context: RunContext) -> Scored | None:
    """Score the images of one part of a run, and report progress; None where the part is empty."""
    if batches is None:
        return None
    return score_batches(forward, batches, device=context.device, progress=context.progress(f"scoring {what}"))


def watch(batches: RunBatches, forward: Forward, recipe: Recipe, context: RunContext) -> dict[str, float]:
    """Measure what is watched during training: the validation images, or without any the images held out."""
    if batches.val is not None:
        scored = score_part(batches.val, forward, "validation images", context)
    else:
        scored = score_part(batches.held_out, forward, "held-out images", context)
    return {} if scored is None else headline(scored, task=recipe.task, activation=recipe.activation)


def headline(scored: Scored, *, task: Task, activation: Activation) -> dict[str, float]:
    """Give the few metrics that are watched while training."""
    result = score(to_scores(scored.logits, activation), scored.targets, scored.known, task=task)
    return {name: float(result[name]) for name in METRIC_NAMES if name in result}
