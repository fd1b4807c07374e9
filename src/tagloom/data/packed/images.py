"""Images that are no files of their own: rows of shards or members of tars, read when somebody asks for them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

WINDOW_BYTES = 128 * 2**20
"""Of pictures that are shuffled among themselves. It is half of what a process keeps in memory."""


class ImageStore(Protocol):
    """Files that hold images, which are numbered through all of them.

    Images that are stored together form a group: reading one of them reads the others as well, or nearly so.
    """

    group_starts: NDArray[np.int64]
    """(groups + 1,): the first image of each group, and the number of all images."""
    group_bytes: NDArray[np.int64]
    """(groups,): how many bytes of pictures a group has."""

    def read(self, number: int, name: str) -> bytes:
        """Read an image. An `ImageError` calls it by this name."""

    def file_of(self, number: int) -> str:
        """Name the file that holds an image."""


class PackedImage:
    """One image of a store. It can be given wherever a path of an image can."""

    __slots__ = ("_name", "_number", "_store")

    def __init__(self, store: ImageStore, number: int, name: str) -> None:
        self._store = store
        self._number = number
        self._name = name

    @property
    def name(self) -> str:
        """The last part of its name, as of a path."""
        return self._name.rpartition("/")[2]

    def __str__(self) -> str:
        return f"{self._store.file_of(self._number)}/{self._name}"

    def read(self) -> bytes:
        """Read its bytes.

        Raises:
            ImageError: If they cannot be read.
        """
        return self._store.read(self._number, str(self))


ImageFile: TypeAlias = Path | PackedImage
"""An image as a table gives it: a file, or a part of one."""


@dataclass(frozen=True, eq=False)
class PackedImages:
    """The images of a table whose pictures lie in a store."""

    store: ImageStore
    numbers: NDArray[np.int64]
    """(rows,): the number in the store of each row of the table."""

    def image(self, row: int, name: str) -> PackedImage:
        """Give the image of a row, under the name that the table has for it."""
        return PackedImage(self.store, int(self.numbers[row]), name)

    def select(self, rows: NDArray[np.intp]) -> "PackedImages":
        """Give the images of some rows."""
        return PackedImages(self.store, self.numbers[rows])

    def shuffled(self, random: np.random.Generator) -> NDArray[np.int64]:
        """Shuffle the rows, (rows,), so that whoever keeps what was read last reads every group once.

        The groups are put into a random order and cut into windows of about `WINDOW_BYTES`. The rows of a window are
        shuffled among themselves.
        """
        groups = np.searchsorted(self.store.group_starts, self.numbers, side="right") - 1
        present, group_of_row = np.unique(groups, return_inverse=True)
        order = random.permutation(len(present))
        sizes = self.store.group_bytes[present[order]]
        window_of_group = np.empty(len(present), np.int64)
        window_of_group[order] = (np.cumsum(sizes) - sizes) // WINDOW_BYTES
        return np.lexsort((random.random(len(groups)), window_of_group[group_of_row])).astype(np.int64)


def distinct_name(name: str, number: int, store: ImageStore, taken: set[str]) -> str:
    """Name an image so that no other has its name: one that is taken, or empty, is completed by file and number.

    Args:
        name: What its file calls it.
        number: Its number in the store.
        store: The store.
        taken: The names of the images before it; its own is added.
    """
    own = name
    if not own or own in taken:
        file = store.file_of(number).rpartition("/")[2].rpartition(".")[0]
        own = "/".join(part for part in (file, str(number), name) if part)
        while own in taken:
            own = f"{file}/{own}"
    taken.add(own)
    return own
