"""Counting the pairs of each class."""

import numpy as np
from numpy.typing import NDArray

from tagloom.data.table import LabelTable, Pairs


def pairs_per_class(pairs: Pairs) -> NDArray[np.int64]:
    """Count the listed pairs of each class, (classes,)."""
    return np.bincount(pairs.indices, minlength=pairs.shape[1]).astype(np.int64)


def unknown_per_class(table: LabelTable, positives: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the images for which each class is unknown, (classes,)."""
    excepted = np.zeros_like(positives) if table.exceptions is None else pairs_per_class(table.exceptions)
    if table.unlisted == "negative":
        return excepted
    presumed = np.array([name in table.presumed for name in table.classes], np.bool_)
    return np.where(presumed, 0, len(table) - positives - excepted)
