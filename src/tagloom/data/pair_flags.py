"""A flag for every pair of image and class, as sparse as what is unusual."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class PairFlags:
    """What the pairs of each class usually are, and the pairs that are otherwise.

    It has the part of scipy's sparse arrays that metrics use. So the known pairs of a table take no more memory than
    its labels, whether most pairs are known, or most unknown, or that differs from class to class.

    >>> from scipy.sparse import csr_array
    >>> others = csr_array(np.array([[True, False], [False, True]]))
    >>> PairFlags(np.array([True, False]), others).toarray().tolist()
    [[False, False], [True, True]]
    """

    usual: NDArray[np.bool_]
    """(classes,)"""
    others: Any
    """A scipy sparse array, (images, classes) bool."""

    @property
    def shape(self) -> tuple[int, int]:
        """Images, classes."""
        images, classes = self.others.shape
        return images, classes

    def tocsc(self) -> "PairFlags":
        """Give the same, quick to slice by class."""
        return PairFlags(self.usual, self.others.tocsc())

    def tocsr(self) -> "PairFlags":
        """Give the same, quick to slice by image."""
        return PairFlags(self.usual, self.others.tocsr())

    def __getitem__(self, index: Any) -> "PairFlags":
        columns = index[1] if isinstance(index, tuple) else slice(None)
        return PairFlags(self.usual[columns], self.others[index])

    def toarray(self, order: Any = None) -> NDArray[np.bool_]:
        """Give all pairs, dense."""
        flags: NDArray[np.bool_] = self.others.toarray(order=order)
        return np.logical_xor(flags, self.usual, out=flags)
