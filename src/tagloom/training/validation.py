"""Running a network over labelled images, in the middle of its training and at its end."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tagloom.metrics import score
from tagloom.recipe.names import METRIC_NAMES, Task
from tagloom.scoring.calibration import Activation, to_scores
from tagloom.training.features.batches import Batches


class Scored(NamedTuple):
    """Logits of a table's readable images with their labels, each (n, N)."""

    logits: NDArray[np.float32]
    targets: NDArray[np.uint8]
    known: NDArray[np.bool_] | None


def score_batches(forward: Callable[..., Tensor], batches: Batches, *, device: torch.device) -> Scored:
    """Run every image once and give its logits with its labels."""
    logits, targets, known = [], [], []
    with torch.no_grad():
        for batch in batches.in_order():
            if len(batch.rows) == 0:
                continue
            logits.append(forward(*batch.to(device).inputs).float().cpu().numpy())
            targets.append(batch.targets.numpy().astype(np.uint8))
            if batch.known is not None:
                known.append(batch.known.numpy())
    return Scored(np.concatenate(logits), np.concatenate(targets), np.concatenate(known) if known else None)


def headline(scored: Scored, *, task: Task, activation: Activation) -> dict[str, float]:
    """Give the few metrics that are watched while training."""
    result = score(to_scores(scored.logits, activation), scored.targets, scored.known, task=task)
    return {name: float(result[name]) for name in METRIC_NAMES if name in result}
