"""Tasks: what one training step computes. The loop knows only that a task gives a loss."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, device

Forward = Callable[..., Tensor]
"""From a batch's inputs to logits (B, N)."""
Loss = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""From logits, targets and known, (B, N) each, to a scalar."""


@dataclass(frozen=True)
class Batch:
    """What a step works on.

    Attributes:
        inputs: Arguments of the network: pictures (B, H, W, 3), or the tensors of a cached summary.
        targets: (B, N), 1 for positive.
        known: (B, N) bool, false where the label is unknown; None when all are known.
        rows: (B,) rows of the table that the batches are made of.
        view: (B,) the number of the view in which each row is seen; None when pictures are augmented anew, so that no
            row is ever seen twice alike.
    """

    inputs: tuple[Tensor, ...]
    targets: Tensor
    known: Tensor | None
    rows: Tensor
    view: Tensor | None = None

    def to(self, place: device) -> "Batch":
        """Move everything that is computed on."""
        return Batch(
            inputs=tuple(value.to(place, non_blocking=True) for value in self.inputs),
            targets=self.targets.to(place, non_blocking=True),
            known=None if self.known is None else self.known.to(place, non_blocking=True),
            rows=self.rows,
            view=self.view,
        )


class Task(Protocol):
    """Owns forward and loss."""

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        """Give at least "loss", a scalar, and "logits" (B, N)."""


class SupervisedTask:
    """Plain training: the network's logits against the labels."""

    def __init__(self, forward: Forward, loss: Loss) -> None:
        self.forward = forward
        self.loss = loss

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        """Give the loss and logits (B, N) of a batch."""
        logits = self.forward(*batch.inputs)
        return {"loss": self.loss(logits, batch.targets, batch.known), "logits": logits}
