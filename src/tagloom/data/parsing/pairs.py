"""Building a sparse matrix of pairs row by row, in four bytes per listed pair."""

from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tagloom.data.table import Pairs


class PairRows:
    """Rows of columns, appended one at a time while a file is read.

    >>> rows = PairRows()
    >>> rows.append([2, 0])
    >>> rows.append([])
    >>> rows.to_matrix(width=3).toarray().tolist()
    [[True, False, True], [False, False, False]]
    """

    def __init__(self) -> None:
        self._columns = array("i")
        self._ends = array("q", [0])

    def append(self, columns: Iterable[int]) -> None:
        """Add a row that lists these columns."""
        self._columns.extend(columns)
        self._ends.append(len(self._columns))

    def row(self, row: int) -> set[int]:
        """Return the columns of a row added earlier."""
        return set(self._columns[self._ends[row] : self._ends[row + 1]])

    def to_matrix(self, width: int, renumbered: NDArray[np.int32] | None = None) -> Pairs:
        """Return the rows as a bool matrix (rows, width), with column c moved to `renumbered[c]`."""
        columns = np.frombuffer(self._columns, dtype=np.int32) if self._columns else np.empty(0, np.int32)
        ends = np.frombuffer(self._ends, dtype=np.int64)
        # scipy chooses the smallest index type itself, but only if both arrays have the same type.
        ends = ends.astype(np.int32) if len(columns) < 2**31 else ends
        columns = columns.copy() if renumbered is None else renumbered[columns]
        matrix = csr_array((np.ones(len(columns), dtype=np.bool_), columns, ends), shape=(len(ends) - 1, width))
        matrix.sum_duplicates()
        return matrix
