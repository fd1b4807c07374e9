"""Labels of a table completed by a label tree.

A positive class makes the classes above it positive. A negative one makes those below it negative. Where only a parent
is named, nobody said which of its children it is: they are unknown, unless the source states their negatives itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tagloom.data.label_tree import LabelTree, parents_of_paths
from tagloom.data.table import LabelTable, Pairs
from tagloom.wording import shown


def with_paths(table: LabelTable) -> LabelTable:
    """Give a table the tree that the names of its classes say: `Animals` above `Animals|Dog`, if both are classes."""
    parents = {} if table.parents or table.task == "single" else parents_of_paths(table.classes)
    if not LabelTree(table.classes, parents):
        return table
    complete = with_tree(table, parents)
    example = next(iter(complete.tree.parent_names()))
    note = f"names such as {shown(example)} are paths in a tree of {int(complete.tree.levels.max())} levels"
    return replace(complete, classes_given=table.classes_given, understood=(*complete.understood, note))


def with_tree(
    table: LabelTable,
    parents: Mapping[str, str],
    *,
    classes: Sequence[str] | None = None,
    on_extra: Literal["error", "drop"] = "error",
) -> LabelTable:
    """Give a table the parents of a tree, and complete its labels.

    Args:
        table: The table.
        parents: The parent of each class that has one; those of the table are kept.
        classes: The order of classes wanted; by default the table's.
        on_extra: See `LabelTable.with_classes`.
    """
    wanted = table.classes if classes is None else tuple(classes)
    merged = {**table.parents, **parents}
    if not merged:
        return table.with_classes(wanted, on_extra=on_extra)
    present, inner = set(table.classes), set(merged.values())
    lacking = [name for name in wanted if name not in present]
    implied = [name for name in lacking if name in inner]
    table = table.with_classes((*table.classes, *implied), on_missing=table.unlisted)
    table = table.with_classes((*table.classes, *(name for name in lacking if name not in inner)))
    table = replace(table, parents=merged)
    if table.tree:
        complete = _complete_negatives if table.unlisted == "negative" else _complete_unknown
        table = complete(table, [table.classes.index(name) for name in implied])
    return table.with_classes(wanted, on_extra=on_extra)  # last, so that a label that is dropped has had its say


def _complete_negatives(table: LabelTable, implied: Sequence[int]) -> LabelTable:
    """Complete a table in which pairs that are not listed are negative."""
    tree = table.tree
    above = tree.ancestors
    positive = _either(table.positive, _times(table.positive, above))
    unknown = csr_array(positive.shape, dtype=np.bool_) if table.exceptions is None else table.exceptions
    if not table.negatives_stated:  # whoever named only the parent did not say which child it is
        without_child = _but(positive, _times(positive, _parent_matrix(tree)))
        unknown = _either(unknown, _times(without_child, above.T.tocsr()))
    if implied:  # a parent that the source does not have is unknown where something below it is
        chosen = csr_array((np.ones(len(implied), np.bool_), (implied, implied)), shape=above.shape)
        unknown = _either(unknown, _times(_times(unknown, above), chosen))
    unknown = _but(unknown, positive)
    # A class is negative where one of the classes above it is: neither positive nor unknown.
    possible = _either(positive, unknown).astype(np.int32) @ above.T.tocsr().astype(np.int32)
    depth = tree.levels - 1
    pairs = unknown.tocoo()
    kept = np.asarray(possible.tocsr()[pairs.row, pairs.col]).ravel() == depth[pairs.col]
    exceptions = csr_array(
        (np.ones(int(kept.sum()), np.bool_), (pairs.row[kept], pairs.col[kept])), shape=unknown.shape
    )
    return replace(table, positive=positive, exceptions=exceptions if exceptions.nnz else None)


def _complete_unknown(table: LabelTable, implied: Sequence[int]) -> LabelTable:
    """Complete a table in which pairs that are not listed are unknown."""
    tree = table.tree
    above = tree.ancestors
    positive = _either(table.positive, _times(table.positive, above))
    if table.exceptions is None:
        return replace(table, positive=positive)
    negative = _but(table.exceptions, positive)
    for column in sorted(implied, key=lambda column: -tree.levels[column]):
        # A parent that the source does not have is negative where all its children are.
        children = np.flatnonzero(tree.parent == column)
        count: NDArray[np.int32] = np.asarray(negative[:, children].astype(np.int32).sum(axis=1)).ravel()
        rows = np.flatnonzero(count == len(children))
        more = csr_array((np.ones(len(rows), np.bool_), (rows, np.full(len(rows), column))), shape=negative.shape)
        negative = _either(negative, _but(more, positive))
    negative = _either(negative, _times(negative, above.T.tocsr()))
    return replace(table, positive=positive, exceptions=_but(negative, positive))


def _parent_matrix(tree: LabelTree) -> Pairs:
    """(N, N) bool: row c lists the parent of class c."""
    rows = np.flatnonzero(tree.parent >= 0)
    size = len(tree.classes)
    return csr_array((np.ones(len(rows), np.bool_), (rows, tree.parent[rows])), shape=(size, size))


def _times(pairs: Pairs, matrix: Pairs) -> Pairs:
    """Give the pairs that a matrix (N, N) leads to."""
    product = pairs.astype(np.int32) @ matrix.astype(np.int32)
    return csr_array(product.astype(np.bool_))


def _either(first: Pairs, second: Pairs) -> Pairs:
    return csr_array((first.astype(np.int32) + second.astype(np.int32)).astype(np.bool_))


def _but(first: Pairs, second: Pairs) -> Pairs:
    """Give the pairs of the first that the second does not have."""
    left = csr_array((first.astype(np.int32) - first.multiply(second).astype(np.int32)).astype(np.bool_))
    left.eliminate_zeros()
    return left
