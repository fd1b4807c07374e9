"""Batches of cached features: what a head on a frozen backbone trains on."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tagloom.data.table import LabelTable
from tagloom.training.features.batches import Batch, Labels, cut, epoch_order
from tagloom.training.features.cache import CachedFeatures
from tagloom.training.ranks import ALONE, World

Rows: TypeAlias = NDArray[np.int64]


class FeatureBatches:
    """Batches of cached features.

    Args:
        views: The features of the same images in each view, the plain view first.
        table: Their labels, one row per row of features.
        batch_size: Images per batch.
        seed: Decides the order and the views.
        chances: How likely each view is shown; they sum to 1.
        world: Of every batch, each of its processes reads its share.
    """

    def __init__(
        self,
        views: Sequence[CachedFeatures],
        table: LabelTable,
        *,
        batch_size: int,
        seed: int,
        chances: Sequence[float] = (1.0,),
        world: World = ALONE,
    ) -> None:
        self.views = views
        self.batch_size = batch_size
        self.seed = seed
        self.chances = chances
        self.world = world
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
        mine = map(self.world.share, cut(order, self.batch_size, start))
        yield from self._batches((rows, view_of[rows]) for rows in mine)

    def in_order(self, view: int = 0) -> Iterator[Batch]:
        """Give every image once in table order, in the plain view or in another."""
        mine = map(self.world.share, cut(np.arange(len(self.views[0])), self.batch_size))
        yield from self._batches((rows, np.full(len(rows), view)) for rows in mine)

    def select(self, rows: NDArray[np.int64]) -> "FeatureBatches":
        """Give batches of some images only, in the order given."""
        return FeatureBatches(
            [view.select(rows) for view in self.views],
            self.labels.table.select(rows),
            batch_size=self.batch_size,
            seed=self.seed,
            chances=self.chances,
            world=self.world,
        )

    def _batches(self, chosen: Iterable[tuple[Rows, Rows]]) -> Iterator[Batch]:
        """Give the batches of some rows, each in its view. While one is used, a thread reads the next."""
        with ThreadPoolExecutor(1) as reader:
            reading: deque[tuple[Rows, Rows, Future[list[NDArray[np.floating]]]]] = deque()
            for rows, view_of in chosen:
                reading.append((rows, view_of, reader.submit(self._gather, rows, view_of)))
                if len(reading) > 1:
                    yield self._batch(*reading.popleft())
            if reading:
                yield self._batch(*reading.popleft())

    def _batch(self, rows: Rows, view_of: Rows, reading: "Future[list[NDArray[np.floating]]]") -> Batch:
        inputs = tuple(_as_input(torch.from_numpy(array)) for array in reading.result())
        return self.labels.batch(inputs, rows, view_of)

    def _gather(self, rows: Rows, view_of: Rows) -> list[NDArray[np.floating]]:
        """Read the features of some rows, each in its view, (B,) each."""
        first = int(view_of[0]) if len(view_of) else 0
        arrays = self.views[first].gather(rows)
        for view in np.unique(view_of[view_of != first]).tolist():
            chosen = view_of == view
            for array, other in zip(arrays, self.views[view].gather(rows[chosen]), strict=True):
                array[chosen] = other
        return arrays


def _as_input(tensor: Tensor) -> Tensor:
    """Give float32, and a map (B, C, H, W) channels-last, so that its tokens need no copy."""
    return tensor.to(torch.float32, memory_format=torch.channels_last if tensor.ndim == 4 else torch.preserve_format)
