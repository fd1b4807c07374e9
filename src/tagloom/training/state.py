"""Everything of a training that changes from step to step: what a checkpoint holds."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import nn

from tagloom.training.checkpoint import CHECKPOINT_FOLDER, CheckpointError
from tagloom.training.optimiser import WeightAverage


@dataclass
class Position:
    """How far a run is.

    Attributes:
        epoch: Epochs done.
        step: Steps done in the current epoch.
        sums: The terms of these steps, each summed over the steps.
        best: The best value of the watched metric.
        best_epoch: The epoch that had it; -1 before the first.
        history: One row per epoch done.
    """

    epoch: int = 0
    step: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    best: float = -math.inf
    best_epoch: int = -1
    history: list[dict[str, float]] = field(default_factory=list)

    def add_step(self, terms: Mapping[str, float]) -> None:
        """Count a step and add its terms."""
        self.step += 1
        for name, value in terms.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def end_epoch(self, row: dict[str, float]) -> None:
        """Count an epoch and start the next one."""
        self.history.append(row)
        self.epoch, self.step, self.sums = self.epoch + 1, 0, {}


class TrainingState:
    """A module with its optimiser, its average and its position.

    Args:
        module: What is trained.
        optimiser: Made for the module's trainable parameters.
        ema: Decay of the running average of the weights; 0 for no average.
        scaler: Scales the loss where gradients are computed in float16.
    """

    def __init__(
        self, module: nn.Module, optimiser: torch.optim.Optimizer, ema: float, scaler: torch.amp.GradScaler
    ) -> None:
        self.module = module
        self.optimiser = optimiser
        self.average = WeightAverage(module, ema) if ema > 0 else None
        self.scaler = scaler
        self.position = Position()

    def to_checkpoint(self) -> dict[str, Any]:
        """Give plain tensors and numbers from which `restore` continues."""
        return {
            "module": self.module.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "average": self.average.state_dict() if self.average else None,
            "scaler": self.scaler.state_dict(),
            "position": asdict(self.position),
        }

    def restore(self, checkpoint: dict[str, Any]) -> None:
        """Take back what `to_checkpoint` gave."""
        if "position" not in checkpoint:
            raise CheckpointError(
                "the checkpoint of this run was written by an older version of Tagloom and cannot be continued. Delete "
                f"the run's folder '{CHECKPOINT_FOLDER}' to train from the beginning."
            )
        self.module.load_state_dict(checkpoint["module"])
        self.optimiser.load_state_dict(checkpoint["optimiser"])
        if self.average and checkpoint["average"]:
            self.average.load_state_dict(checkpoint["average"])
        self.scaler.load_state_dict(checkpoint["scaler"])
        self.position = Position(**checkpoint["position"])

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Let the module hold the averaged weights for a while, where there is an average."""
        if self.average:
            self.average.swap(self.module)
        try:
            yield
        finally:
            if self.average:
                self.average.swap(self.module)
