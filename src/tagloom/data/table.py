"""The label table: which pairs of image and class are positive, negative or unknown."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from tagloom.data.label_tree import LabelTree
from tagloom.data.options import check_option
from tagloom.data.packed.images import ImageFile, PackedImages
from tagloom.data.pair_flags import PairFlags
from tagloom.errors import DataError
from tagloom.wording import listed, shown

Pairs: TypeAlias = "csr_array[np.bool_, tuple[int, int]]"
Rows: TypeAlias = "slice | Sequence[int] | NDArray[np.integer] | NDArray[np.bool_]"
Unlisted: TypeAlias = Literal["negative", "unknown"]
Task: TypeAlias = Literal["multi", "single"]
_SURROGATE = re.compile("[\ud800-\udfff]")  # no text file can hold these; bytes of a file name that is not UTF-8


@dataclass(frozen=True, eq=False)
class LabelTable:
    """Images x classes, stored sparsely: every pair is positive, negative or unknown.

    Pairs that neither matrix lists are all negative or all unknown, as `unlisted` says; `exceptions` lists the pairs of
    the other kind. So a table that is mostly unknown takes as little memory as one without unknown pairs.

    >>> positive = csr_array(np.array([[True, False], [False, False]]))
    >>> table = LabelTable(Path("photos"), ["a.jpg", "b.jpg"], ("cat", "dog"), positive)
    >>> table.targets([0, 1]).tolist(), bool(table.known([0, 1]).all())
    ([[1, 0], [0, 0]], True)
    """

    root: Path
    """The folder that image paths are relative to."""
    images: list[str]
    """One path per row, as in the source: relative to `root`, or absolute."""
    classes: tuple[str, ...]
    """One name per column."""
    positive: Pairs
    """(images, classes) bool: the positive pairs."""
    exceptions: "Pairs | None" = None
    """(images, classes) bool: the unknown pairs if `unlisted` is "negative", otherwise the negative ones."""
    unlisted: Unlisted = "negative"
    """What pairs are that neither matrix lists."""
    presumed: frozenset[str] = frozenset()
    """Classes whose unlisted pairs are negative all the same where `unlisted` is "unknown"."""
    task: Task = "multi"
    """"single" if the source allows only one label per image, as class folders do."""
    source: str = ""
    """Where the table comes from, for provenance and messages."""
    classes_given: bool = False
    """Whether the classes were given (classes.txt, a tagger, COCO's list) or are the labels that occur."""
    repeated: int = 0
    """Number of rows of the source that repeated an earlier row and were merged into it."""
    ignored_columns: tuple[str, ...] = ()
    """Columns of the source that hold neither images nor labels."""
    negatives_stated: bool = False
    """Whether the source states each negative itself, as 0/1 columns do, instead of naming only what is there."""
    parents: Mapping[str, str] = field(default_factory=dict)
    """The parent of each class that has one, in a label tree; see `LabelTree`."""
    understood: tuple[str, ...] = ()
    """What the reader understood the source to mean, and why, where that was not plain. An audit shows it."""
    packed: "PackedImages | None" = None
    """Where the images are that are no files of their own; `images` are only their names then."""

    def __post_init__(self) -> None:
        if not all(self.classes):
            raise DataError(f"{self._name}: class {self.classes.index('') + 1} has an empty name. Give it one.")
        if odd := [name for name in self.classes if _SURROGATE.search(name)]:
            raise DataError(
                f"{self._name}: class names must be UTF-8 text, and these are not: {listed(map(shown, odd))}. Rename "
                "the labels, or the folders if folders name the classes."
            )
        if len(set(self.classes)) != len(self.classes):
            twice = [name for name, times in Counter(self.classes).items() if times > 1]
            raise DataError(
                f"{self._name}: class names must differ, but these occur twice: {listed(map(shown, twice))}. Rename or "
                "merge them."
            )
        object.__setattr__(self, "positive", self._checked("positive", self.positive))
        if self.exceptions is not None:
            object.__setattr__(self, "exceptions", self._checked("exceptions", self.exceptions))
            if (self.positive * self.exceptions).nnz:
                raise DataError(f"{self._name}: a pair is listed both as positive and as an exception. Keep one.")

    def __len__(self) -> int:
        return len(self.images)

    @cached_property
    def tree(self) -> LabelTree:
        """The label tree of the classes; false if no class has a parent."""
        return LabelTree(self.classes, self.parents)

    def image(self, row: int) -> ImageFile:
        """Return one image, to be opened."""
        return self.path(row) if self.packed is None else self.packed.image(row, self.images[row])

    def path(self, row: int) -> Path:
        """Return the file of one image. Use `image` to look at it: packed images have no files."""
        if self.packed is not None:
            raise DataError(f"{self._name}: its images are packed, and this needs a file per image. Unpack them.")
        return self.root / self.images[row]

    def targets(self, rows: Rows) -> NDArray[np.uint8]:
        """Return dense 0/1 labels of some rows, (n, classes). Unknown pairs are 0 here, and False in `known`."""
        return self.positive[self._index(rows)].toarray().view(np.uint8)

    def known(self, rows: Rows) -> NDArray[np.bool_]:
        """Return whether each pair of some rows is known, (n, classes)."""
        known = self.known_pairs(rows)
        return np.ones((len(self._index(rows)), len(self.classes)), np.bool_) if known is None else known.toarray()

    def known_pairs(self, rows: Rows) -> PairFlags | None:
        """Return whether each pair of some rows is known, (n, classes), as sparse as the table; None if all are."""
        index = self._index(rows)
        usual = self._unlisted_known
        if self.unlisted == "negative":
            return None if self.exceptions is None else PairFlags(usual, self.exceptions[index])
        known = self.positive[index]
        if self.exceptions is not None:
            known = csr_array(known + self.exceptions[index])
        where = np.flatnonzero(~usual[known.indices])  # the others are known as their classes usually are
        return PairFlags(usual, pairs_at(known.tocoo().row[where], known.indices[where], known.shape))

    def select(self, rows: Rows) -> "LabelTable":
        """Return the table of only these rows, in the order given."""
        index = self._index(rows)
        return replace(
            self,
            images=[self.images[row] for row in index.tolist()],
            positive=self.positive[index],
            exceptions=None if self.exceptions is None else self.exceptions[index],
            packed=None if self.packed is None else self.packed.select(index),
        )

    def shuffled(self, seed: int) -> "LabelTable":
        """Return the table with its rows in another order, the same one for the same seed."""
        return self.select(np.random.default_rng(seed).permutation(len(self)))

    def split(self, fraction: float, seed: int) -> tuple["LabelTable", "LabelTable"]:
        """Split the images in two at random, the same way for the same seed.

        Classes are handled rarest first, and each keeps its share of positives in both parts. So a class with two or
        more positives nearly always has one in each.

        Args:
            fraction: The share of images, between 0 and 1, that goes to the second part.
            seed: Another seed gives another split.

        Returns:
            The remaining and the split-off images, both in the order of the table.
        """
        left, split_off = self.split_rows(fraction, seed)
        return self.select(left), self.select(split_off)

    def split_rows(self, fraction: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of the two parts that `split` makes."""
        if not 0 < fraction < 1:
            raise DataError(f"{self._name}: the fraction to split off must be between 0 and 1, found {fraction}.")
        if len(self) < 2:
            raise DataError(f"{self._name}: a table of {len(self)} images cannot be split in two.")
        size = min(max(round(fraction * len(self)), 1), len(self) - 1)
        in_second = _stratified_choice(self.positive, size, fraction, np.random.default_rng(seed))
        return np.flatnonzero(~in_second), np.flatnonzero(in_second)

    def with_classes(
        self,
        classes: Sequence[str],
        on_missing: Literal["negative", "unknown", "error"] = "negative",
        on_extra: Literal["error", "drop"] = "error",
    ) -> "LabelTable":
        """Return the same labels in another order of classes, for example that of the tagger to evaluate.

        Args:
            classes: The order wanted.
            on_missing: What pairs are for classes that this table lacks; "error" refuses such classes.
            on_extra: Whether to refuse classes of this table that the order lacks, or to drop them with their labels.
        """
        check_option(self._name, "on_missing", on_missing, ("negative", "unknown", "error"))
        check_option(self._name, "on_extra", on_extra, ("error", "drop"))
        wanted = tuple(classes)
        column_of = {name: column for column, name in enumerate(wanted)}
        if extra := [name for name in self.classes if name not in column_of]:
            if on_extra == "drop":
                return self._without_classes(extra).with_classes(wanted, on_missing)
            raise DataError(
                f"{self._name}: {not_a_class(extra[0], wanted)}"
                f"{f' Neither are {len(extra) - 1} more of its labels.' if len(extra) > 1 else ''} The classes and "
                "their order come from the tagger, from classes.txt or from the training table. Correct the label, or "
                "drop such labels with on_extra='drop' (tagloom evaluate --ignore-other-labels)."
            )
        present = set(self.classes)
        lacking = [name for name in wanted if name not in present]
        if lacking and on_missing == "error":
            raise DataError(
                f"{self._name}: the table has no class {listed(map(shown, lacking))}. Add it to the classes, or choose "
                "what its pairs are with on_missing='negative' or 'unknown'."
            )
        columns = np.array([column_of[name] for name in (*self.classes, *lacking)], dtype=np.int32)
        exceptions = self.exceptions
        if lacking and on_missing != self.unlisted:
            shape = (len(self), len(self.classes))
            base = csr_array(shape, dtype=np.bool_) if exceptions is None else exceptions
            everywhere = csr_array(np.ones((len(self), len(lacking)), dtype=np.bool_))
            exceptions = hstack([base, everywhere], format="csr")
        return replace(
            self,
            classes=wanted,
            positive=_with_columns(self.positive, columns, len(wanted)),
            exceptions=None if exceptions is None else _with_columns(exceptions, columns, len(wanted)),
            classes_given=True,
        )

    def _without_classes(self, names: Sequence[str]) -> "LabelTable":
        dropped = set(names)
        kept = np.array([column for column, name in enumerate(self.classes) if name not in dropped], dtype=np.intp)
        return replace(
            self,
            classes=tuple(name for name in self.classes if name not in dropped),
            positive=self.positive[:, kept],
            exceptions=None if self.exceptions is None else self.exceptions[:, kept],
        )

    def fingerprint(self) -> str:
        """Hash the images, classes and labels: different tables have different fingerprints."""
        names = "\n".join([*self.images, "", *self.classes])
        digest = hashlib.blake2b(names.encode("utf-8", "surrogatepass"), digest_size=16)
        digest.update(f"\n{self.unlisted}\n".encode())
        digest.update("\n".join(sorted(self.presumed)).encode())
        for pairs in (self.positive, self.exceptions):
            if pairs is not None:
                digest.update(pairs.indptr.tobytes() + pairs.indices.tobytes())
        return digest.hexdigest()

    @cached_property
    def _unlisted_known(self) -> NDArray[np.bool_]:
        """Whether the unlisted pairs of each class are known, (classes,)."""
        return np.array([self.unlisted == "negative" or name in self.presumed for name in self.classes], np.bool_)

    @property
    def _name(self) -> str:
        return self.source or "label table"

    def _checked(self, field: str, pairs: Pairs) -> Pairs:
        """Refuse a matrix of the wrong shape or type; drop duplicates and stored zeros, so that `nnz` is exact."""
        wanted = (len(self.images), len(self.classes))
        if pairs.format != "csr" or pairs.dtype != np.bool_ or pairs.shape != wanted:
            raise DataError(
                f"{self._name}: {field} must be a bool csr_array of {wanted[0]} images x {wanted[1]} classes, "
                f"found {pairs.format} {pairs.dtype} {pairs.shape}"
            )
        if not pairs.has_canonical_format or not pairs.data.all():
            pairs = pairs.copy()
            pairs.sum_duplicates()
            pairs.eliminate_zeros()
        return pairs

    def _index(self, rows: Rows) -> NDArray[np.intp]:
        """Return rows, (n,), from a slice, a mask over all images, or row numbers."""
        if isinstance(rows, slice):
            return np.arange(len(self))[rows]
        given = np.asarray(rows)
        if given.dtype == np.bool_:
            if given.shape != (len(self),):
                raise DataError(
                    f"{self._name}: a mask needs one value for each of {len(self)} images, found shape {given.shape}."
                )
            return np.flatnonzero(given)
        return given.astype(np.intp)


# Comparing two names takes the product of their lengths, and a hint is not worth minutes.
_LONGEST_COMPARED = 100
_MOST_COMPARED = 20_000


def not_a_class(name: str, classes: Sequence[str]) -> str:
    """Say that a label is not one of the classes, and which classes are nearest.

    >>> not_a_class("dgo", ["cat", "dog"])
    "label 'dgo' is not one of the 2 classes. Nearest: 'dog'."
    """
    near: list[str] = []
    if len(name) <= _LONGEST_COMPARED:
        known = [other for other in classes[:_MOST_COMPARED] if len(other) <= _LONGEST_COMPARED]
        near = get_close_matches(name, known, n=3) or get_close_matches(name.casefold().strip(), known, n=3, cutoff=0.5)
    nearest = f" Nearest: {', '.join(map(shown, near))}." if near else ""
    return f"label {shown(name)} is not one of the {len(classes)} classes.{nearest}"


def pairs_at(
    rows: "Sequence[int] | NDArray[np.integer]", columns: "Sequence[int] | NDArray[np.integer]", shape: tuple[int, int]
) -> Pairs:
    """Make the matrix that lists some pairs of image and class, each given once."""
    where = np.asarray(rows, np.int64), np.asarray(columns, np.int64)
    return csr_array((np.ones(len(where[0]), dtype=np.bool_), where), shape=shape)


def _with_columns(pairs: Pairs, columns: NDArray[np.int32], width: int) -> Pairs:
    """Move column c to `columns[c]` in a matrix of `width` columns."""
    moved = csr_array((pairs.data, columns[pairs.indices], pairs.indptr), shape=(pairs.shape[0], width))
    moved.sort_indices()
    return moved


def _stratified_choice(positive: Pairs, size: int, fraction: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Choose a mask of `size` rows, (images,), in which every class has about `fraction` of its positives.

    This is iterative stratification (Sechidis et al., 2011) with a fixed order of classes: the rarest choose first,
    because frequent ones come out nearly right on their own.
    """
    by_class = positive.tocsc()
    counts = np.diff(by_class.indptr)
    free, leaning, promised, second = range(
        4
    )  # leaning: towards the first part; promised: to the first part, as a class's only positive there
    side = np.full(positive.shape[0], free, dtype=np.int8)
    room = size
    for column in np.argsort(counts, kind="stable"):
        if counts[column] < 2:
            continue
        members = rng.permutation(by_class.indices[by_class.indptr[column] : by_class.indptr[column + 1]])
        sides = side[members]
        movable = members[np.argsort(sides, kind="stable")][: int((sides < promised).sum())]
        if len(movable) and not (sides == promised).any():
            side[movable[-1]] = promised
            movable = movable[:-1]
        share = max(round(fraction * counts[column]), 1)
        needed = min(max(share - int((sides == second).sum()), 0), room, len(movable))
        side[movable[:needed]] = second
        side[movable[needed:]] = leaning
        room -= needed
    # Remaining room is filled at random, with promised rows only as a last resort.
    chance = rng.permutation(np.flatnonzero(side != second))
    side[chance[np.argsort(side[chance], kind="stable")][:room]] = second
    chosen: NDArray[np.bool_] = side == second
    return chosen
