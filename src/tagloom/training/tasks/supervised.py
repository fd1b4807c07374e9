"""What a task is, and the plainest one: the network's logits against the labels."""

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from tagloom.losses import Loss
from tagloom.training.features.batches import Batch

Forward = Callable[..., Tensor]
"""From a batch's inputs to logits (B, N)."""


class Task(Protocol):
    """Owns forward and loss of a training step."""

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        """Give named scalars, each a mean over the batch: "loss", which is minimised, and any terms worth logging."""


class SupervisedTask:
    """Plain training: the network's logits against the labels."""

    def __init__(self, forward: Forward, loss: Loss) -> None:
        self.forward = forward
        self.loss = loss

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        """Give the loss of a batch."""
        return {"loss": self.loss(self.forward(*batch.inputs), batch.targets, batch.known)}
