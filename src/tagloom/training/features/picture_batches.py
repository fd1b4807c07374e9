"""Batches of pictures: what a backbone trains on."""

import signal
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from tagloom.data.images import open_image
from tagloom.data.table import LabelTable
from tagloom.data.transforms import augment, decode_size, prepare, sample_rng
from tagloom.errors import ImageError
from tagloom.recipe.pictures import Augment, Preprocess
from tagloom.training.features.batches import Batch, Labels, cut, epoch_order
from tagloom.training.ranks import ALONE, World
from tagloom.training.signals import STOP_SIGNALS


class PictureBatches:
    """Batches of pictures, decoded and augmented in worker processes.

    An image that cannot be read is left out of its batch and noted in `skipped`; no other image replaces it.

    Args:
        table: The images and their labels.
        preprocess: Size and fit.
        augmentation: What is done to the pictures of an epoch.
        batch_size: Images per batch.
        seed: Decides the order and the augmentations.
        workers: Processes that decode; 0 decodes in this one.
        world: Of every batch, each of its processes decodes its share.
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
        world: World = ALONE,
    ) -> None:
        self.table = table
        self.preprocess = preprocess
        self.augmentation = augmentation
        self.batch_size = batch_size
        self.seed = seed
        self.workers = workers
        self.world = world
        self.labels = Labels(table)
        self.skipped: dict[int, str] = {}

    def __len__(self) -> int:
        return -(-len(self.table) // self.batch_size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Give the augmented batches of an epoch, from batch `start` on."""
        order = _repeated(epoch_order(len(self.table), self.seed, epoch, self.table.packed), self.augmentation.repeats)
        pictures = _Pictures(self.table, self.preprocess, self.augmentation, self.seed, epoch)
        yield from self._load(pictures, cut(order, self.batch_size, start))

    def in_order(self) -> Iterator[Batch]:
        """Give every image once, unaugmented, in table order."""
        pictures = _Pictures(self.table, self.preprocess, None, self.seed, 0)
        yield from self._load(pictures, cut(np.arange(len(self.table)), self.batch_size))

    def select(self, rows: NDArray[np.int64]) -> "PictureBatches":
        """Give batches of some images only, in the order given."""
        return PictureBatches(
            self.table.select(rows),
            self.preprocess,
            self.augmentation,
            batch_size=self.batch_size,
            seed=self.seed,
            workers=self.workers,
            world=self.world,
        )

    def _load(self, pictures: "_Pictures", batches: list[NDArray[np.int64]]) -> Iterator[Batch]:
        loader = DataLoader(
            pictures,
            batch_sampler=[self.world.share(numbers).tolist() for numbers in batches],
            num_workers=self.workers,
            collate_fn=_collate,
            worker_init_fn=_leave_signals_to_the_parent,
            pin_memory=torch.cuda.is_available(),
        )
        for pixels, rows, errors in loader:
            self.skipped.update(errors)
            yield self.labels.batch((pixels,), np.asarray(rows, np.int64))


class _Pictures(Dataset[tuple[int, NDArray[np.uint8] | str]]):
    """One epoch's pictures: the row, and the pixels (H, W, 3) or what is wrong with the file.

    With R rows, number n is the row n mod R. A picture that is repeated thus has several numbers, each with its own
    augmentation.
    """

    def __init__(
        self, table: LabelTable, preprocess: Preprocess, augmentation: Augment | None, seed: int, epoch: int
    ) -> None:
        self.table = table
        self.preprocess = preprocess
        self.augmentation = augmentation
        self.seed = seed
        self.epoch = epoch

    def __getitem__(self, number: int) -> tuple[int, NDArray[np.uint8] | str]:
        row = number % len(self.table)
        try:
            image = open_image(self.table.image(row), at_least=decode_size(self.preprocess, self.augmentation))
        except ImageError as error:
            return row, str(error)
        if self.augmentation is None:
            return row, prepare(image, self.preprocess)
        return row, augment(image, self.preprocess, self.augmentation, sample_rng(self.seed, self.epoch, number))


def _collate(
    samples: list[tuple[int, NDArray[np.uint8] | str]],
) -> tuple[torch.Tensor, list[int], dict[int, str]]:
    """Stack the readable pictures (B, H, W, 3), and give their rows and the errors of the others by row."""
    good = [(row, pixels) for row, pixels in samples if not isinstance(pixels, str)]
    errors = {row: problem for row, problem in samples if isinstance(problem, str)}
    stacked = np.stack([pixels for _, pixels in good]) if good else np.zeros((0, 1, 1, 3), np.uint8)
    return torch.from_numpy(stacked), [row for row, _ in good], errors


def _leave_signals_to_the_parent(worker: int) -> None:
    """Keep a worker alive when the whole process group is asked to stop, so that the current step can finish."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _repeated(order: NDArray[np.int64], times: int) -> NDArray[np.int64]:
    """Repeat each of the first rows of an order, under a new number each time, so that the length stays the same.

    >>> _repeated(np.array([3, 0, 2, 1]), 2).tolist()
    [3, 7, 0, 4]
    """
    rows = order[: -(-len(order) // times)]
    return (rows[:, None] + len(order) * np.arange(times)).ravel()[: len(order)]
