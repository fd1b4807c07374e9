"""Label trees: a dog is an animal. What a label says about its parents and children, in tables and in scores.

A class may have a parent, which is another class. Parents come from names that are paths (`Animals|Dog`) or from
`classes.yaml`. A table stores all parents that it was told, also of classes that were left out since; then the nearest
parent that is still a class counts.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import DataError
from tagloom.wording import shown

if TYPE_CHECKING:
    from scipy.sparse import csr_array

PATH_MARK = "|"
MAX_LEVELS = 30


class LabelTree:
    """The parents of classes.

    Args:
        classes: The names of the classes.
        parents: The parent of each class that has one, by name. Names that are no classes are passed over.

    >>> tree = LabelTree(["dog", "animal", "husky"], {"husky": "dog", "dog": "animal"})
    >>> tree.paths, tree.levels.tolist()
    (('animal|dog', 'animal', 'animal|dog|husky'), [2, 1, 3])
    """

    def __init__(self, classes: Sequence[str], parents: Mapping[str, str]) -> None:
        self.classes = tuple(classes)
        column_of = {name: column for column, name in enumerate(self.classes)}
        self.parent = np.full(len(self.classes), -1, np.int32)
        """(N,) the column of each class's parent; -1 without one."""
        for name, column in column_of.items():
            above, steps = parents.get(name), 0
            while above is not None and above not in column_of and steps < MAX_LEVELS:
                above, steps = parents.get(above), steps + 1
            if above is not None and above in column_of:
                self.parent[column] = column_of[above]
        self.levels = self._levels()
        """(N,) 1 for a class without a parent, 2 for its children, and so on."""

    def __bool__(self) -> bool:
        return bool((self.parent >= 0).any())

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The path of each class: the names of its parents and its own. A name that is already a path stays one."""
        found: dict[int, str] = {}
        for column in np.argsort(self.levels, kind="stable").tolist():
            name, above = self.classes[column], int(self.parent[column])
            base = found.get(above, "")
            is_below = not base or name.startswith(base + PATH_MARK)
            found[column] = name if is_below else f"{base}{PATH_MARK}{name}"
        return tuple(found[column] for column in range(len(self.classes)))

    @cached_property
    def ancestors(self) -> "csr_array[np.bool_, tuple[int, int]]":
        """(N, N) bool: row c lists the parents of class c, their parents, and so on."""
        rows, columns = [], []
        for column in range(len(self.classes)):
            above = int(self.parent[column])
            while above >= 0:
                rows.append(column)
                columns.append(above)
                above = int(self.parent[above])
        shape = (len(self.classes), len(self.classes))
        from scipy.sparse import csr_array  # slow to import, and tagger folders without a tree do not need it

        return csr_array((np.ones(len(rows), np.bool_), (rows, columns)), shape=shape)

    def parent_names(self) -> dict[str, str]:
        """Give the parent of each class that has one, by name."""
        return {
            self.classes[column]: self.classes[int(above)] for column, above in enumerate(self.parent) if above >= 0
        }

    def consistent_scores(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Raise scores (n, N) so that every parent scores at least as much as its best child."""
        raised = scores.copy()
        for column in self._children_first:
            above = self.parent[column]
            np.maximum(raised[:, above], raised[:, column], out=raised[:, above])
        return raised

    def consistent_thresholds(self, thresholds: NDArray[np.float32]) -> NDArray[np.float32]:
        """Lower thresholds (N,) so that a tag's parents are tags too, given consistent scores."""
        lowered = thresholds.copy()
        for column in self._children_first:
            above = self.parent[column]
            lowered[above] = min(lowered[above], lowered[column])
        return lowered

    def violations(self, values: NDArray[np.float32] | NDArray[np.bool_]) -> int:
        """Count the pairs of values (n, N), scores or tags, in which a class has more than its parent."""
        below = np.flatnonzero(self.parent >= 0)
        return int(np.greater(values[:, below], values[:, self.parent[below]]).sum())

    @cached_property
    def _children_first(self) -> list[int]:
        """The columns that have a parent, the deepest first."""
        order = np.argsort(-self.levels, kind="stable")
        return [int(column) for column in order if self.parent[column] >= 0]

    def _levels(self) -> NDArray[np.int32]:
        levels = np.zeros(len(self.classes), np.int32)
        for column in range(len(self.classes)):
            line = [column]
            while self.parent[line[-1]] >= 0 and not levels[line[-1]]:
                line.append(int(self.parent[line[-1]]))
                if len(line) > MAX_LEVELS:
                    raise DataError(
                        f"label {shown(self.classes[column])} has more than {MAX_LEVELS} labels above it, or is its "
                        "own parent. Correct the parents."
                    )
            base = max(int(levels[line[-1]]), 1)
            for step, member in enumerate(reversed(line)):
                levels[member] = base + step
        return levels


def parents_of_paths(names: Sequence[str]) -> dict[str, str]:
    """Give the parents that names say themselves: `Animals` of `Animals|Dog`, whether or not it is among them.

    >>> parents_of_paths(["Animals|Dog|Husky", "sofa"])
    {'Animals|Dog|Husky': 'Animals|Dog', 'Animals|Dog': 'Animals'}
    """
    parents: dict[str, str] = {}
    for name in names:
        if not all(part.strip() for part in name.split(PATH_MARK)):
            continue  # a name with an odd sign, and no path
        while PATH_MARK in name and name not in parents:
            above = name.rpartition(PATH_MARK)[0]
            parents[name] = above
            name = above
    return parents
