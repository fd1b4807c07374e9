"""Batches of a training, in an order that follows from seed and epoch alone.

Because nothing else decides what a step sees, a run can be taken up at any step of any epoch, and the number of
worker processes does not matter.
"""

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from tagloom.data.images import open_image
from tagloom.data.table import LabelTable
from tagloom.data.transforms import augment, decode_size, prepare, sample_rng
from tagloom.errors import ImageError
from tagloom.recipe.pictures import Augment, Preprocess
from tagloom.training.features.cache import CachedFeatures
from tagloom.training.tasks.supervised import Batch


class Batches(Protocol):
    """What the loop trains on."""

    def __len__(self) -> int:
        """Count the batches of an epoch."""

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Give the batches of an epoch in its own order, from batch `start` on."""

    def in_order(self) -> Iterator[Batch]:
        """Give every image once, unaugmented, in table order: for evaluation."""


def epoch_order(count: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """Shuffle the numbers below `count`, by seed and epoch."""
    return np.random.default_rng(np.random.SeedSequence([seed, epoch])).permutation(count)


class FeatureBatches:
    """Batches of cached features.

    Args:
        views: The features of the same images, as they are and in other views.
        table: Their labels, a row per feature row.
        batch_size: Images per batch.
        seed: Decides order and views.
        chances: How likely each view is shown; they add up to 1.
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
        self.steps = np.cumsum(chances[::-1])  # the last view takes the lowest draws
        self.labels = Labels(table)

    def __len__(self) -> int:
        return -(-len(self.views[0]) // self.batch_size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Give the batches of an epoch, from batch `start` on."""
        count = len(self.views[0])
        order = epoch_order(count, self.seed, epoch)
        draws = np.random.default_rng(np.random.SeedSequence([self.seed, epoch, 1])).random(count)
        seen = (len(self.views) - 1 - np.searchsorted(self.steps, draws, side="right")).clip(0)
        for rows in _cut(order, self.batch_size, start):
            yield self._batch(rows, seen[rows])

    def in_order(self, view: int = 0) -> Iterator[Batch]:
        """Give every image once in table order, as it is or in another view."""
        for rows in _cut(np.arange(len(self.views[0])), self.batch_size, 0):
            yield self._batch(rows, np.full(len(rows), view))

    def _batch(self, rows: NDArray[np.int64], seen: NDArray[np.int64]) -> Batch:
        first = int(seen[0])
        arrays = self.views[first].gather(rows)
        for view in np.unique(seen[seen != first]).tolist():
            there = seen == view
            for array, other in zip(arrays, self.views[view].gather(rows[there]), strict=True):
                array[there] = other
        inputs = tuple(torch.from_numpy(array).float() for array in arrays)
        return self.labels.batch(inputs, rows, seen)


class ImageBatches:
    """Batches of pictures, decoded and augmented in worker processes.

    An image that cannot be read is left out of its batch and noted in `skipped`; no other takes its place.
    """

    def __init__(
        self,
        table: LabelTable,
        preprocess: Preprocess,
        augmentation: Augment,
        *,
        batch_size: int,
        seed: int,
        workers: int,
    ) -> None:
        self.paths = [table.path(row) for row in range(len(table))]
        self.preprocess = preprocess
        self.augmentation = augmentation
        self.batch_size = batch_size
        self.seed = seed
        self.workers = workers
        self.labels = Labels(table)
        self.skipped: dict[int, str] = {}

    def __len__(self) -> int:
        return -(-len(self.paths) // self.batch_size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Give the batches of an epoch, from batch `start` on."""
        order = _repeated(epoch_order(len(self.paths), self.seed, epoch), self.augmentation.repeats)
        pictures = _Pictures(self.paths, self.preprocess, self.augmentation, self.seed, epoch)
        yield from self._load(pictures, _cut(order, self.batch_size, start))

    def in_order(self) -> Iterator[Batch]:
        """Give every image once, unaugmented, in table order."""
        pictures = _Pictures(self.paths, self.preprocess, None, self.seed, 0)
        yield from self._load(pictures, _cut(np.arange(len(self.paths)), self.batch_size, 0))

    def _load(self, pictures: "_Pictures", batches: list[NDArray[np.int64]]) -> Iterator[Batch]:
        loader = DataLoader(
            pictures,
            batch_sampler=[rows.tolist() for rows in batches],
            num_workers=self.workers,
            collate_fn=_collate,
            worker_init_fn=_leave_signals_to_the_parent,
            pin_memory=torch.cuda.is_available(),
        )
        for pixels, rows, errors in loader:
            self.skipped.update(errors)
            yield self.labels.batch((pixels,), np.asarray(rows, np.int64))


class Labels:
    """The labels of a table as tensors, dense when that is small."""

    def __init__(self, table: LabelTable) -> None:
        self.table = table
        every = np.arange(len(table))
        small = len(table) * len(table.classes) <= 1 << 28
        self._targets = table.targets(every) if small else None
        self._all_known = table.exceptions is None and table.unlisted == "negative"
        self._known = table.known(every) if small and not self._all_known else None

    def batch(
        self, inputs: tuple[torch.Tensor, ...], rows: NDArray[np.int64], seen: NDArray[np.int64] | None = None
    ) -> Batch:
        """Join inputs with the labels of their rows."""
        targets = self.table.targets(rows) if self._targets is None else self._targets[rows]
        known = None
        if not self._all_known:
            known = torch.from_numpy(self.table.known(rows) if self._known is None else self._known[rows])
        views = None if seen is None else torch.from_numpy(seen)
        return Batch(inputs, torch.from_numpy(targets).float(), known, torch.from_numpy(rows), views)


class _Pictures(Dataset[tuple[int, NDArray[np.uint8] | str]]):
    """One epoch's pictures: their row, and pixels (H, W, 3) or what is wrong with the file.

    With R rows, number n is the row n mod R. So a picture that comes several times has several numbers, each of which
    has its own augmentation.
    """

    def __init__(
        self, paths: list[Path], preprocess: Preprocess, augmentation: Augment | None, seed: int, epoch: int
    ) -> None:
        self.paths = paths
        self.preprocess = preprocess
        self.augmentation = augmentation
        self.seed = seed
        self.epoch = epoch

    def __getitem__(self, number: int) -> tuple[int, NDArray[np.uint8] | str]:
        row = number % len(self.paths)
        try:
            image = open_image(self.paths[row], at_least=decode_size(self.preprocess, self.augmentation))
        except ImageError as error:
            return row, str(error)
        if self.augmentation is None:
            return row, prepare(image, self.preprocess)
        return row, augment(image, self.preprocess, self.augmentation, sample_rng(self.seed, self.epoch, number))


def _collate(
    samples: list[tuple[int, NDArray[np.uint8] | str]],
) -> tuple[torch.Tensor, list[int], dict[int, str]]:
    good = [(row, pixels) for row, pixels in samples if not isinstance(pixels, str)]
    errors = {row: problem for row, problem in samples if isinstance(problem, str)}
    stacked = np.stack([pixels for _, pixels in good]) if good else np.zeros((0, 1, 1, 3), np.uint8)
    return torch.from_numpy(stacked), [row for row, _ in good], errors


def _leave_signals_to_the_parent(worker: int) -> None:
    """Keep a worker alive when the whole process group is asked to stop, so that the step in hand can be finished."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _repeated(order: NDArray[np.int64], times: int) -> NDArray[np.int64]:
    """Repeat each of the first rows of an order, under another number each time, until there are as many as before.

    >>> _repeated(np.array([3, 0, 2, 1]), 2).tolist()
    [3, 7, 0, 4]
    """
    rows = order[: -(-len(order) // times)]
    return (rows[:, None] + len(order) * np.arange(times)).ravel()[: len(order)]


def _cut(order: NDArray[np.int64], size: int, start: int) -> list[NDArray[np.int64]]:
    return [order[first : first + size] for first in range(start * size, len(order), size)]
