"""A cache of vectors on disk, so that no source encodes a label twice.

Each source has a folder. Every call that encodes something adds a file to it, and many files are merged into one. Files
are written to a temporary name and renamed, so processes cannot disturb each other. A file's name ends with its
checksum; a damaged one is removed. The cache only saves time: what cannot be read or written is encoded again.
"""

import hashlib
import re
import uuid
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tagloom.cache_folder import (
    META_FILE,
    file_checksum,
    is_intact,
    mark_used,
    name_with_checksum,
    remove_leftovers,
    write_meta,
)
from tagloom.errors import WordError
from tagloom.files import PARTIAL_SUFFIX
from tagloom.words.vector_files import LabelVectors, read_vectors, write_vectors

MAX_FILES = 16
"""With more files in a folder, they are merged."""
ENCODING = 1
"""Version of the encoding. Raise it with every change to how labels become vectors."""
SUFFIX = ".safetensors"
_WITHOUT_CHECKSUM = re.compile(r"[0-9a-f]{32}\.safetensors")  # as older versions wrote them


class VectorCache:
    """The cached vectors of one source.

    Args:
        root: The folder that contains the folders of all sources.
        identity: Names the source; it must change whenever the source's vectors would.
    """

    def __init__(self, root: Path, identity: str) -> None:
        self.folder = root / hashlib.blake2b(f"{ENCODING}\n{identity}".encode(), digest_size=16).hexdigest()
        self._identity = identity

    def find(self, labels: Collection[str]) -> dict[str, NDArray[np.float32]]:
        """Return the vectors (d_w,) of the labels that are cached."""
        wanted, found = set(labels), dict[str, NDArray[np.float32]]()
        mark_used(self.folder)
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            found |= {name: row for name, row in _read(path).items() if name in wanted}
            if len(found) == len(wanted):
                break
        return found if len({row.shape for row in found.values()}) == 1 else {}

    def add(self, labels: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Store vectors (n, d_w), if the folder can be written."""
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(self.folder)
            write_meta(self.folder / META_FILE, {"source": self._identity})
            self._write(LabelVectors(tuple(labels), vectors))
            files = list(self.folder.glob(f"*{SUFFIX}"))
            if len(files) > MAX_FILES:
                self._merge(files)

    def _merge(self, files: Sequence[Path]) -> None:
        """Merge files into one.

        Each process removes only files that it has merged, or that are damaged, so that nothing is lost when several
        processes merge at once. A reader whose file disappears encodes some labels again.
        """
        rows = dict[str, NDArray[np.float32]]()
        for path in files:
            rows |= _read(path)
        if len({row.shape for row in rows.values()}) != 1:
            return  # a foreign file
        self._write(LabelVectors(tuple(rows), np.stack(list(rows.values()))))
        for path in files:
            path.unlink(missing_ok=True)

    def _write(self, table: LabelVectors) -> None:
        # Its name is known when it is written; whoever clears the cache meanwhile leaves unfinished files alone.
        fresh = self.folder / f"{uuid.uuid4().hex}{SUFFIX}{PARTIAL_SUFFIX}"
        write_vectors(fresh, table)
        fresh.replace(self.folder / name_with_checksum(uuid.uuid4().hex, file_checksum(fresh), SUFFIX))


def _read(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read a file of vectors; remove it and give nothing if it is damaged."""
    unchecked = _WITHOUT_CHECKSUM.fullmatch(path.name)
    try:
        if unchecked or is_intact(path):
            labels, vectors = read_vectors(path)
            # No encoded label is zero, but what a power cut leaves behind is.
            if not unchecked or (np.isfinite(vectors).all() and vectors.any(axis=1).all()):
                return dict(zip(labels, vectors, strict=True))
    except OSError:
        return {}  # it was removed, or may not be read: that is no damage
    except WordError:
        pass
    with suppress(OSError):
        path.unlink()
    return {}
