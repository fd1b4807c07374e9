"""What absence means in a table that states hardly any negative: photos with some keywords, and silence about the rest.

A loss that leaves unknown pairs out learns "yes" from such a class, and a metric that leaves them out calls that
perfect. So training takes the unknown pairs of such classes for weak negatives, and measuring takes them for negatives.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tagloom.data.pair_counts import pairs_per_class, unknown_per_class
from tagloom.data.table import LabelTable, Pairs, pairs_at

Columns = NDArray[np.bool_]
"""Which classes, (classes,)."""


def columns_without_negatives(table: LabelTable) -> Columns:
    """Say which classes have positives and unknown pairs, but no known negative."""
    positives, unknown, negatives = _counts(table)
    return np.asarray((positives > 0) & (unknown > 0) & (negatives == 0))


def columns_with_few_negatives(table: LabelTable) -> Columns:
    """Say which classes have unknown pairs and fewer known negatives than positives.

    A handful of reviewed photos among thousands states a few negatives, and must not change how the rest is learned.
    """
    positives, unknown, negatives = _counts(table)
    return (unknown > 0) & (negatives < positives)


def presume_negative(table: LabelTable, columns: Columns) -> LabelTable:
    """Take the unknown pairs of some classes for negatives."""
    has_unknown = _counts(table)[1] > 0
    columns, left = columns & has_unknown, has_unknown & ~columns
    if not columns.any():
        return table
    if not left.any():
        return replace(table, unlisted="negative", exceptions=None, presumed=frozenset())
    if table.unlisted == "unknown":
        names = (table.classes[column] for column in np.flatnonzero(columns))
        return replace(table, presumed=table.presumed.union(names))
    return table if table.exceptions is None else replace(table, exceptions=_in_columns(table.exceptions, left))


def _in_columns(pairs: Pairs, columns: Columns) -> Pairs:
    """Keep the pairs of some classes."""
    kept = pairs.tocoo()
    where = np.flatnonzero(columns[kept.col])
    return pairs_at(kept.row[where], kept.col[where], pairs.shape)


def _counts(table: LabelTable) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Count the positive, unknown and known negative pairs of each class, (classes,) each."""
    positives = pairs_per_class(table.positive)
    unknown = unknown_per_class(table, positives)
    return positives, unknown, len(table) - positives - unknown
