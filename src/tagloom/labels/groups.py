"""Groups: which classes share which query. Plain numbers, no tensors."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import RecipeError, unknown_name
from tagloom.wording import listed, shown

GROUPING_NAMES = ("random", "consecutive")
DEFAULT_GROUPS = 100
Grouping = str | Sequence[Sequence[int]]


def group_classes(
    classes: int, groups: int | None = None, grouping: Grouping = "random", seed: int = 0
) -> list[list[int]]:
    """Divide the classes among the queries.

    Args:
        classes: Number of classes N.
        groups: Number of groups K; by default min(100, N), or the number of lists in `grouping`.
        grouping: "random" (a seeded permutation, cut into groups), "consecutive" (class order, cut into groups), or the
            groups themselves as lists of columns. The first two give sizes that differ by at most one. With one group
            per class, both give query k class k, since permuting equal queries changes nothing.
        seed: Seed of the permutation for "random".

    Returns:
        K lists of class numbers; every class is in exactly one, and none is empty.

    >>> group_classes(5, 2, "consecutive")
    [[0, 1, 2], [3, 4]]
    """
    if not isinstance(grouping, str):
        return _given(classes, groups, grouping)
    if grouping not in GROUPING_NAMES:
        raise RecipeError(unknown_name("grouping", grouping, GROUPING_NAMES) + ", or a list of lists of columns")
    groups = min(DEFAULT_GROUPS, classes) if groups is None else groups
    if not 1 <= groups <= classes:
        raise RecipeError(
            f"groups is {groups} for {classes} classes: every query needs at least one class, so it must be between 1 "
            f"and {classes}."
        )
    shuffled = grouping == "random" and groups < classes
    order = np.random.default_rng(seed).permutation(classes) if shuffled else np.arange(classes)
    return [part.tolist() for part in np.array_split(order, groups)]


def lay_out(parts: Sequence[Sequence[int]], size: int | None = None) -> tuple[int, NDArray[np.int64]]:
    """Lay out groups as rows of equal length, each group at the start of its row.

    Args:
        parts: K lists of columns.
        size: The length g of a row; by default the size of the largest group.

    Returns:
        The length of a row, and the slot k · g + j of each class, (N,).

    >>> lay_out([[2, 0], [1]])
    (2, array([1, 2, 0]))
    """
    size = max(map(len, parts)) if size is None else size
    slots = np.empty(sum(map(len, parts)), np.int64)
    for row, part in enumerate(parts):
        slots[list(part)] = row * size + np.arange(len(part))
    return size, slots


def _given(classes: int, groups: int | None, grouping: Sequence[Sequence[int]]) -> list[list[int]]:
    """Check that the lists contain every class exactly once."""
    try:
        parts = [list(part) for part in grouping]
    except TypeError:
        raise RecipeError(f"grouping is {shown(grouping)}: expected a list of lists of columns.") from None
    if groups is not None and groups != len(parts):
        raise RecipeError(f"groups is {groups}, but grouping lists {len(parts)}: remove groups.")
    seen: dict[int, int] = {}
    for number, part in enumerate(parts):
        if not part:
            raise RecipeError(f"group {number} of grouping is empty: its query would have no class.")
        for member in part:
            if not isinstance(member, int | np.integer) or isinstance(member, bool) or not 0 <= member < classes:
                raise RecipeError(
                    f"group {number} of grouping contains {shown(member)}; columns are numbered from 0 to "
                    f"{classes - 1}."
                )
            if member in seen:
                raise RecipeError(f"class {member} is in group {seen[member]} and again in group {number} of grouping.")
            seen[int(member)] = number
    missing = sorted(set(range(classes)) - set(seen))
    if missing:
        raise RecipeError(f"{len(missing)} classes are in no group of grouping: {listed(missing)}.")
    return [[int(member) for member in part] for part in parts]
