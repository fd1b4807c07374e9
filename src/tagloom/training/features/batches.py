"""What a training step sees: one batch, and the interface of everything that gives batches.

The order of an epoch follows from the seed and the epoch alone. So a run can be resumed at any step of any epoch, and
the number of worker processes changes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tagloom.data.packed.images import PackedImages
from tagloom.data.table import LabelTable

DENSE_PAIRS = 1 << 28  # up to this many pairs are kept as a dense array: 256 MB


@dataclass(frozen=True)
class Batch:
    """What a step works on.

    Attributes:
        inputs: Arguments of the network: pictures (B, H, W, 3), or the tensors of a cached summary.
        targets: (B, N), 1 for positive.
        known: (B, N) bool, false where the pair is unknown; None where all are known.
        rows: (B,) rows of the table that the batches are made from.
        view: (B,) the number of the view that each row is seen in; None where pictures are augmented again for every
            batch, so that no picture is ever seen twice.
    """

    inputs: tuple[Tensor, ...]
    targets: Tensor
    known: Tensor | None
    rows: Tensor
    view: Tensor | None = None

    def to(self, device: torch.device) -> "Batch":
        """Move what is computed with; rows and views stay where they are."""
        return Batch(
            inputs=tuple(value.to(device, non_blocking=True) for value in self.inputs),
            targets=self.targets.to(device, non_blocking=True),
            known=None if self.known is None else self.known.to(device, non_blocking=True),
            rows=self.rows,
            view=self.view,
        )


class Labels:
    """The labels of a table as tensors; kept dense where that is small."""

    def __init__(self, table: LabelTable) -> None:
        self.table = table
        every = np.arange(len(table))
        small = len(table) * len(table.classes) <= DENSE_PAIRS
        self._targets = table.targets(every) if small else None
        self._all_known = table.exceptions is None and table.unlisted == "negative"
        self._known = table.known(every) if small and not self._all_known else None

    def batch(
        self, inputs: tuple[Tensor, ...], rows: NDArray[np.int64], view: NDArray[np.int64] | None = None
    ) -> Batch:
        """Join inputs with the labels of their rows."""
        targets, known = self.of(rows)
        return Batch(
            inputs,
            torch.from_numpy(targets).float(),
            None if known is None else torch.from_numpy(known),
            torch.from_numpy(rows),
            None if view is None else torch.from_numpy(view),
        )

    def of(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.bool_] | None]:
        """Give the targets of some rows, and which of them are known, (n, N) each; None where all are."""
        targets = self.table.targets(rows) if self._targets is None else self._targets[rows]
        if self._all_known:
            return targets, None
        return targets, self.table.known(rows) if self._known is None else self._known[rows]


class Batches(Protocol):
    """The batches of some images, for training and for evaluation."""

    labels: Labels

    def __len__(self) -> int:
        """Count the batches of an epoch."""

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Give the batches of an epoch in that epoch's order, from batch `start` on."""

    def in_order(self) -> Iterator[Batch]:
        """Give every image once, unaugmented, in table order: for evaluation."""

    def select(self, rows: NDArray[np.int64]) -> "Batches":
        """Give batches of some images only, in the order given."""


def epoch_order(count: int, seed: int, epoch: int, packed: PackedImages | None = None) -> NDArray[np.int64]:
    """Shuffle the rows 0 to `count` - 1, by seed and epoch; packed images so that few groups are open at a time."""
    random = np.random.default_rng(np.random.SeedSequence([seed, epoch]))
    return random.permutation(count) if packed is None else packed.shuffled(random)


def cut(order: NDArray[np.int64], size: int, start: int = 0) -> list[NDArray[np.int64]]:
    """Cut an order into batches, from batch `start` on.

    >>> [rows.tolist() for rows in cut(np.arange(5), 2, start=1)]
    [[2, 3], [4]]
    """
    return [order[first : first + size] for first in range(start * size, len(order), size)]
