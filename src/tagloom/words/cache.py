"""Vectors kept on disk, so that no label is encoded twice by the same source.

A source has a folder, and every call that encoded something leaves one file in it; many files are merged into one.
Files are written by renaming, so processes cannot harm each other. The folder only saves time: what cannot be read or
written there is encoded again.
"""

import hashlib
import uuid
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import WordError
from tagloom.words.vector_files import LabelVectors, read_vectors, write_vectors

MANY = 16  # files, above which they are merged
ENCODING = 1  # raised with every change to how labels become vectors


class KeptVectors:
    """The vectors that one source gave.

    Args:
        root: Where all sources have their folders.
        identity: What names the source, other when its vectors would be.
    """

    def __init__(self, root: Path, identity: str) -> None:
        self.folder = root / hashlib.blake2b(f"{ENCODING}\n{identity}".encode(), digest_size=16).hexdigest()

    def find(self, labels: Collection[str]) -> dict[str, NDArray[np.float32]]:
        """Give the vectors (d_w,) of those labels that are there."""
        wanted, found = set(labels), dict[str, NDArray[np.float32]]()
        for path in sorted(self.folder.glob("*.safetensors")):
            with suppress(WordError):
                table = read_vectors(path)
                found |= {name: row for name, row in zip(*table, strict=True) if name in wanted}
            if len(found) == len(wanted):
                break
        return found

    def add(self, labels: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Keep vectors (n, d_w), where that is possible."""
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write(LabelVectors(tuple(labels), vectors))
            files = list(self.folder.glob("*.safetensors"))
            if len(files) > MANY:
                self._merge(files)

    def _merge(self, files: Sequence[Path]) -> None:
        """Put files into one.

        Each process removes only what it has read and written anew, and what is damaged, so that nothing is lost when
        several merge at once. A reader whose file goes away under it encodes some labels again.
        """
        rows = dict[str, NDArray[np.float32]]()
        for path in files:
            with suppress(WordError):
                rows |= dict(zip(*read_vectors(path), strict=True))
        if len({row.shape for row in rows.values()}) != 1:
            return  # a file of somebody else's
        self._write(LabelVectors(tuple(rows), np.stack(list(rows.values()))))
        for path in files:
            path.unlink(missing_ok=True)

    def _write(self, table: LabelVectors) -> None:
        write_vectors(self.folder / f"{uuid.uuid4().hex}.safetensors", table)
