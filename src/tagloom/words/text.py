"""Text files of word vectors, as GloVe and fastText write them: a word and its values per line, plain or gzipped.

Files have millions of lines, of which a few hundred are needed. So a file is read line by line and only the needed
lines are parsed; the rest is never decoded.
"""

import gzip
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import WordError

SUFFIXES = (".txt", ".vec", ".txt.gz", ".vec.gz")
MAX_LINE = 2**20
MAX_BYTES = 64 * 2**30  # after decompression
MAX_VALUES = 16_384


class TextVectors:
    """The vocabulary of a text file.

    A first line of two whole numbers is fastText's header and is skipped. Words with spaces, which GloVe 840B has, are
    skipped too.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def find(self, words: Collection[str]) -> dict[str, NDArray[np.float32]]:
        """Return the vectors (d_w,) of the words that the file contains; the first one if a word occurs twice."""
        wanted = {word.encode(): word for word in words}
        found: dict[str, NDArray[np.float32]] = {}
        size = None
        for number, line in self._lines():
            word, _, values = line.partition(b" ")
            if size is None:
                size = len(values.split())
                if not 0 < size <= MAX_VALUES:
                    raise WordError(
                        f"{self.path}, line {number}: {size} values after the first word. Expected lines with a word "
                        f"and 1 to {MAX_VALUES} numbers."
                    )
            name = wanted.get(word)
            if name is None or name in found:
                continue
            vector = self._parsed(values, size, number)
            if vector is not None:
                found[name] = vector
                if len(found) == len(wanted):
                    break
        if size is None:
            raise WordError(f"{self.path}: no vectors in it. Expected lines with a word and its values.")
        return found

    def listed(self) -> Iterator[str]:
        """List all words, in the order of the file."""
        for _, line in self._lines():
            yield line.partition(b" ")[0].decode(errors="replace")

    def _parsed(self, values: bytes, size: int, number: int) -> NDArray[np.float32] | None:
        fields = values.split()
        if len(fields) > size:
            return None  # a word with a space that begins with the wanted word
        try:
            vector = np.array(fields, np.float32)
        except ValueError:
            vector = np.full(1, np.nan, np.float32)
        if len(fields) < size or not np.isfinite(vector).all():
            raise WordError(f"{self.path}, line {number}: expected {size} numbers after the word. Is the file cut off?")
        return vector

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield numbered lines without fastText's header; refuse lines of absurd length."""
        try:
            with self._open() as file:
                read, number = 0, 0
                while line := file.readline(MAX_LINE):
                    number, read = number + 1, read + len(line)
                    if len(line) == MAX_LINE or read > MAX_BYTES:
                        raise WordError(f"{self.path}, line {number}: too long for a file of word vectors.")
                    header = number == 1 and len(line.split()) == 2 and all(map(bytes.isdigit, line.split()))
                    if not header and not line.isspace():
                        yield number, line
        except (OSError, EOFError, zlib.error) as error:
            raise WordError(
                f"{self.path}: cannot be read ({error}). Check the path, or download the file again."
            ) from error

    def _open(self) -> IO[bytes] | gzip.GzipFile:
        return gzip.open(self.path, "rb") if self.path.suffix.lower() == ".gz" else self.path.open("rb")
