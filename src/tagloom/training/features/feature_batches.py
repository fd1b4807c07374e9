"""Batches of cached features: what a head on a frozen backbone trains on."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from tagloom.data.table import LabelTable
from tagloom.training.features.batches import Batch, Labels, cut, epoch_order
from tagloom.training.features.cache import CachedFeatures


class FeatureBatches:
    """Batches of cached features.

    Args:
        views: The features of the same images in each view, the plain view first.
        table: Their labels, one row per row of features.
        batch_size: Images per batch.
        seed: Decides the order and the views.
        chances: How likely each view is shown; they sum to 1.
    """

    def __init__(
        self,
        views: Sequence[CachedFeatures],
        table: LabelTable,
        *,
        batch_size: int,
        seed: int,
        chances: Sequence[float] = (1.0,),
    ) -> None:
        self.views = views
        self.batch_size = batch_size
        self.seed = seed
        self.labels = Labels(table)
        self._limits = np.cumsum(chances[::-1])  # the last view takes the lowest draws

    def __len__(self) -> int:
        return -(-len(self.views[0]) // self.batch_size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Give the batches of an epoch, each image in a view drawn at random, from batch `start` on."""
        count = len(self.views[0])
        order = epoch_order(count, self.seed, epoch)
        draws = np.random.default_rng(np.random.SeedSequence([self.seed, epoch, 1])).random(count)
        view_of = (len(self.views) - 1 - np.searchsorted(self._limits, draws, side="right")).clip(0)
        for rows in cut(order, self.batch_size, start):
            yield self._batch(rows, view_of[rows])

    def in_order(self, view: int = 0) -> Iterator[Batch]:
        """Give every image once in table order, in the plain view or in another."""
        for rows in cut(np.arange(len(self.views[0])), self.batch_size):
            yield self._batch(rows, np.full(len(rows), view))

    def _batch(self, rows: NDArray[np.int64], view_of: NDArray[np.int64]) -> Batch:
        """Join the features of some rows, each in its view, (B,) each."""
        first = int(view_of[0])
        arrays = self.views[first].gather(rows)
        for view in np.unique(view_of[view_of != first]).tolist():
            chosen = view_of == view
            for array, other in zip(arrays, self.views[view].gather(rows[chosen]), strict=True):
                array[chosen] = other
        inputs = tuple(torch.from_numpy(array).float() for array in arrays)
        return self.labels.batch(inputs, rows, view_of)
