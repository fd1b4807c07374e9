"""Scoring a network in the middle of its training, and choosing its thresholds at the end."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tagloom.metrics import score, top1_accuracy
from tagloom.training.batches import Batches


class Scored(NamedTuple):
    """Scores of a table's readable images with their labels, each (n, N)."""

    scores: NDArray[np.float32]
    targets: NDArray[np.uint8]
    known: NDArray[np.bool_] | None


def score_batches(forward: Callable[..., Tensor], batches: Batches, *, activation: str, device: torch.device) -> Scored:
    """Run every image once and give its probabilities with its labels."""
    scores, targets, known = [], [], []
    with torch.no_grad():
        for batch in batches.in_order():
            if len(batch.rows) == 0:
                continue
            logits = forward(*batch.to(device).inputs).float()
            scores.append((logits.softmax(1) if activation == "softmax" else logits.sigmoid()).cpu().numpy())
            targets.append(batch.targets.numpy().astype(np.uint8))
            if batch.known is not None:
                known.append(batch.known.numpy())
    return Scored(np.concatenate(scores), np.concatenate(targets), np.concatenate(known) if known else None)


def headline(scored: Scored, *, task: str) -> dict[str, float]:
    """Give the few figures that are watched while training."""
    result = score(scored.scores, scored.targets, scored.known)
    figures = {name: float(result[name]) for name in ("mAP", "CF1", "OF1")}
    if task == "single":
        figures["top1"] = top1_accuracy(scored.scores, scored.targets)
    return figures
