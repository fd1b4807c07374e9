"""A cache of vectors on disk, so that no source encodes a label twice.

Each source has a folder. Every call that encodes something adds a file to it, and many files are merged into one. Files
are written to a temporary name and renamed, so processes cannot disturb each other. The cache only saves time: what
cannot be read or written is encoded again.
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

MAX_FILES = 16
"""With more files in a folder, they are merged."""
ENCODING = 1
"""Version of the encoding. Raise it with every change to how labels become vectors."""


class VectorCache:
    """The cached vectors of one source.

    Args:
        root: The folder that contains the folders of all sources.
        identity: Names the source; it must change whenever the source's vectors would.
    """

    def __init__(self, root: Path, identity: str) -> None:
        self.folder = root / hashlib.blake2b(f"{ENCODING}\n{identity}".encode(), digest_size=16).hexdigest()

    def find(self, labels: Collection[str]) -> dict[str, NDArray[np.float32]]:
        """Return the vectors (d_w,) of the labels that are cached."""
        wanted, found = set(labels), dict[str, NDArray[np.float32]]()
        for path in sorted(self.folder.glob("*.safetensors")):
            with suppress(WordError):
                table = read_vectors(path)
                found |= {name: row for name, row in zip(*table, strict=True) if name in wanted}
            if len(found) == len(wanted):
                break
        return found

    def add(self, labels: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Store vectors (n, d_w), if the folder can be written."""
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write(LabelVectors(tuple(labels), vectors))
            files = list(self.folder.glob("*.safetensors"))
            if len(files) > MAX_FILES:
                self._merge(files)

    def _merge(self, files: Sequence[Path]) -> None:
        """Merge files into one.

        Each process removes only files that it has merged, or that are damaged, so that nothing is lost when several
        processes merge at once. A reader whose file disappears encodes some labels again.
        """
        rows = dict[str, NDArray[np.float32]]()
        for path in files:
            with suppress(WordError):
                rows |= dict(zip(*read_vectors(path), strict=True))
        if len({row.shape for row in rows.values()}) != 1:
            return  # a foreign file
        self._write(LabelVectors(tuple(rows), np.stack(list(rows.values()))))
        for path in files:
            path.unlink(missing_ok=True)

    def _write(self, table: LabelVectors) -> None:
        write_vectors(self.folder / f"{uuid.uuid4().hex}.safetensors", table)
