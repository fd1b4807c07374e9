"""Every pair of images x classes except some, as sparse as the exceptions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class AllBut:
    """All pairs except those that a sparse bool matrix lists.

    It has the part of scipy's sparse arrays that metrics use. So the known pairs of a table in which few are unknown
    take no more memory than the unknown ones.

    >>> from scipy.sparse import csr_array
    >>> AllBut(csr_array(np.array([[True, False], [False, False]]))).tocsc()[:, :1].toarray().tolist()
    [[False], [True]]
    """

    pairs: Any
    """A scipy sparse array, (images, classes) bool: the pairs left out."""

    @property
    def shape(self) -> tuple[int, int]:
        """Images, classes."""
        images, classes = self.pairs.shape
        return images, classes

    def tocsc(self) -> "AllBut":
        """Give the same, quick to slice by class."""
        return AllBut(self.pairs.tocsc())

    def tocsr(self) -> "AllBut":
        """Give the same, quick to slice by image."""
        return AllBut(self.pairs.tocsr())

    def __getitem__(self, index: Any) -> "AllBut":
        return AllBut(self.pairs[index])

    def toarray(self, order: Any = None) -> NDArray[np.bool_]:
        """Give all pairs, dense."""
        return np.asarray(~self.pairs.toarray(order=order))
