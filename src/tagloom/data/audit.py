"""What is wrong with a label table and its images, found before a training run finds it."""

import hashlib
import os
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tagloom.data.images import MAX_FILE_BYTES, MAX_PIXELS, open_image
from tagloom.data.table import LabelTable, Pairs
from tagloom.errors import ImageError, ImageFault
from tagloom.progress import Progress, no_progress
from tagloom.recipe.parts import MAX_BROKEN_SHARE

Digest: TypeAlias = bytes | None
T = TypeVar("T")

STRONGEST_PAIRS = 20
MIN_IMAGES = 2
"""One to learn from and one to hold aside."""
FEW_POSITIVES = 5
"""A class with fewer is rare."""
_MUCH_MORE_FREQUENT = 5
_ALIKE = 0.8  # a letter in three makes another word ("cat", "car"), a letter in six is a slip ("person", "persan")
_LONGEST_SPELLING = 100  # nobody types longer names by hand, and the ways to shorten one grow with its length
_CHUNK = 512  # images handed to the threads at a time, and classes whose pairs are counted at a time
_ENOUGH = (64, 64)  # decoding to this size still goes through every byte of a JPEG, in a fraction of the time


@dataclass(frozen=True)
class LabelsPerImage:
    """How many labels images have; `histogram[k]` images have k of them."""

    mean: float
    least: int
    most: int
    without: int
    histogram: list[int]


@dataclass(frozen=True)
class LabelPair:
    """Two classes that come together in `together` images: a share of the first's images, and of the second's."""

    first: str
    second: str
    together: int
    share_of_first: float
    share_of_second: float


@dataclass(frozen=True)
class LikelySlip:
    """A rare class one slip of the pen away from one that is much more frequent."""

    name: str
    positives: int
    meant: str
    meant_positives: int


@dataclass(frozen=True)
class ImageProblem:
    """An image that cannot be used: missing, broken, oversized or of a format that is not read, and what was found."""

    image: str
    kind: ImageFault
    finding: str


@dataclass(frozen=True)
class DuplicateGroup:
    """Images with the same bytes, and whether the table says different things about them."""

    images: list[str]
    labels_differ: bool


@dataclass(frozen=True)
class Leak:
    """An image of the other table that is in this one too: at the same path, or with the same bytes."""

    image: str
    other_image: str
    by: Literal["path", "content"]


@dataclass(frozen=True)
class Audit:
    """Everything an audit found; lists are empty where there is nothing to mend."""

    source: str
    images: int
    classes: list[str]
    positives: list[int]
    """Per class, the images that have it."""
    unknown: list[int]
    """Per class, the images for which nobody said."""
    labels_per_image: LabelsPerImage
    strongest_pairs: list[LabelPair]
    """By the share of images with either class that have both, strongest first."""
    classes_without_positive: list[str]
    rare_classes: list[str]
    """Classes with a positive, but fewer than `FEW_POSITIVES`."""
    likely_slips: list[LikelySlip]
    """Rare classes that may be misspelt; none where somebody named the classes and so vouches for their spelling."""
    class_name_clashes: list[list[str]]
    """Groups of names that differ only in case, spaces, hyphens, underscores or the way Unicode writes them."""
    class_names_with_outer_spaces: list[str]
    repeated_rows: int
    """Rows that only repeated an earlier one and were merged into it."""
    ignored_columns: list[str]
    """Columns of the table that are neither images nor labels."""
    problems: list[ImageProblem]
    duplicates: list[DuplicateGroup]
    other: str | None
    """The table that was compared for leaks."""
    leaks: list[Leak]

    @property
    def obstacles(self) -> list[str]:
        """Why training would refuse the table as it is."""
        unreadable = len(self.problems)
        reasons: list[str] = []
        if self.images < MIN_IMAGES:
            reasons.append(f"at least {MIN_IMAGES} images are needed, found {self.images}")
        if not any(self.positives):
            reasons.append("no image has any label")
        if unreadable > MAX_BROKEN_SHARE * self.images:
            reasons.append(f"{unreadable:,} of {self.images:,} images cannot be read, over {MAX_BROKEN_SHARE:.0%}")
        return reasons

    @property
    def trainable(self) -> bool:
        """Whether training would take the table: enough images, nearly all readable, and a label among them."""
        return not self.obstacles

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and text, for JSON."""
        return {**asdict(self), "obstacles": self.obstacles}


def audit(
    table: LabelTable,
    other: LabelTable | None = None,
    *,
    max_pixels: int = MAX_PIXELS,
    progress: Progress = no_progress,
    workers: int = 2,
) -> Audit:
    """Read every image of a table once, and look its labels over.

    Args:
        table: The table to audit, usually the training one.
        other: A table that must not share images with it, usually the validation one. Its images are compared only.
        max_pixels: Images that promise more pixels are reported as oversized.
        progress: Called with the images done and their total.
        workers: Threads that read and decode.
    """
    paths = [_plain_path(table, row) for row in range(len(table))]
    row_at = {path: row for row, path in enumerate(paths)}
    other_paths = [] if other is None else [_plain_path(other, row) for row in range(len(other))]
    unread = [path for path in other_paths if path not in row_at]
    total = len(paths) + len(unread)

    problems: list[ImageProblem] = []
    rows_of: dict[bytes, list[int]] = defaultdict(list)
    with ThreadPoolExecutor(max(1, workers), thread_name_prefix="tagloom-audit") as pool:
        examined = _in_threads(pool, lambda path: _examine(path, max_pixels), paths)
        for row, (digest, error) in enumerate(examined):
            if error is not None:
                problems.append(ImageProblem(table.images[row], error.reason, error.finding))
            if digest is not None:
                rows_of[digest].append(row)
            progress(row + 1, total)
        other_digests: dict[str, Digest] = {}
        for path, digest in zip(unread, _in_threads(pool, lambda path: _digest(_read(path)), unread), strict=True):
            other_digests[path] = digest
            progress(len(paths) + len(other_digests), total)

    leaks: list[Leak] = []
    for path, other_image in zip(other_paths, [] if other is None else other.images, strict=True):
        digest = other_digests.get(path)
        if path in row_at:
            leaks.append(Leak(table.images[row_at[path]], other_image, "path"))
        elif digest is not None and digest in rows_of:
            leaks.append(Leak(table.images[rows_of[digest][0]], other_image, "content"))

    positives = _per_class(table.positive)
    return Audit(
        source=table.source,
        images=len(table),
        classes=list(table.classes),
        positives=positives.tolist(),
        unknown=_unknown_per_class(table, positives).tolist(),
        labels_per_image=_labels_per_image(table),
        strongest_pairs=_strongest_pairs(table, positives),
        classes_without_positive=[table.classes[column] for column in np.flatnonzero(positives == 0)],
        rare_classes=[table.classes[column] for column in _rare(positives)],
        likely_slips=[] if table.classes_given else _likely_slips(table.classes, positives),
        class_name_clashes=_name_clashes(table.classes),
        class_names_with_outer_spaces=[name for name in table.classes if name != name.strip()],
        repeated_rows=table.repeated,
        ignored_columns=list(table.ignored_columns),
        problems=problems,
        duplicates=[
            DuplicateGroup([table.images[row] for row in rows], _labels_differ(table, rows))
            for rows in rows_of.values()
            if len(rows) > 1
        ],
        other=None if other is None else other.source,
        leaks=leaks,
    )


def _plain_path(table: LabelTable, row: int) -> str:
    """An absolute path without detours, as text; links are not followed, because equal content finds those."""
    return os.path.abspath(table.path(row))  # noqa: PTH100  Path.absolute keeps "..", and resolve asks the disk


def _in_threads(pool: ThreadPoolExecutor, work: Callable[[str], T], paths: Sequence[str]) -> Iterator[T]:
    """Results in order. A chunk at a time, because a future for each of a million images would fill the memory."""
    for start in range(0, len(paths), _CHUNK):
        yield from pool.map(work, paths[start : start + _CHUNK])


def _examine(path: str, max_pixels: int) -> tuple[Digest, ImageError | None]:
    """An image's digest, if it can be read, and what is wrong with it."""
    data = _read(path)
    try:
        open_image(path if data is None else data, max_pixels=max_pixels, at_least=_ENOUGH)
    except ImageError as error:
        return _digest(data), error
    return _digest(data), None


def _read(path: str) -> bytes | None:
    """The bytes of a regular file, one beyond the cap at most; None if there are none to be had."""
    with suppress(OSError, ValueError):
        if Path(path).is_file():
            with Path(path).open("rb") as file:
                return file.read(MAX_FILE_BYTES + 1)
    return None


def _digest(data: bytes | None) -> Digest:
    """BLAKE2b of a whole file; None for what is empty or was not read to its end, which would look alike."""
    if not data or len(data) > MAX_FILE_BYTES:
        return None
    return hashlib.blake2b(data, digest_size=16).digest()


def _per_class(pairs: Pairs) -> NDArray[np.int64]:
    return np.bincount(pairs.indices, minlength=pairs.shape[1]).astype(np.int64)


def _unknown_per_class(table: LabelTable, positives: NDArray[np.int64]) -> NDArray[np.int64]:
    excepted = np.zeros_like(positives) if table.exceptions is None else _per_class(table.exceptions)
    return excepted if table.unlisted == "negative" else len(table) - positives - excepted


def _labels_per_image(table: LabelTable) -> LabelsPerImage:
    counts = np.diff(table.positive.indptr)
    if not len(counts):
        return LabelsPerImage(0.0, 0, 0, 0, [])
    histogram = np.bincount(counts).tolist()
    return LabelsPerImage(float(counts.mean()), int(counts.min()), int(counts.max()), histogram[0], histogram)


def _strongest_pairs(table: LabelTable, positives: NDArray[np.int64]) -> list[LabelPair]:
    """The pairs with the largest overlap: images with both over images with either.

    A pair must come together in two images and in a thousandth of all, so that chance does not lead the list.
    """
    enough = max(2, len(table) // 1000)
    counts = table.positive.astype(np.int32)
    by_class = counts.T.tocsr()
    found: list[tuple[float, int, int, int]] = []
    for start in range(0, len(table.classes), _CHUNK):
        block = (by_class[start : start + _CHUNK] @ counts).tocoo()
        first, second, together = block.row + start, block.col, block.data
        kept = (first < second) & (together >= enough)
        first, second, together = first[kept], second[kept], together[kept]
        overlap = together / (positives[first] + positives[second] - together)
        best = np.argsort(-overlap, kind="stable")[:STRONGEST_PAIRS]
        found += zip(
            overlap[best].tolist(), together[best].tolist(), first[best].tolist(), second[best].tolist(), strict=True
        )
    found.sort(key=lambda pair: (-pair[0], -pair[1], pair[2:]))
    return [
        LabelPair(table.classes[a], table.classes[b], both, both / int(positives[a]), both / int(positives[b]))
        for _, both, a, b in found[:STRONGEST_PAIRS]
    ]


def _name_clashes(classes: Sequence[str]) -> list[list[str]]:
    alike: dict[str, list[str]] = defaultdict(list)
    for name in classes:
        alike[_plain_name(name)].append(name)
    return [names for names in alike.values() if len(names) > 1]


def _plain_name(name: str) -> str:
    words = unicodedata.normalize("NFKC", name).replace("_", " ").replace("-", " ").split()
    return " ".join(words).casefold()


def _rare(positives: NDArray[np.int64]) -> list[int]:
    columns: list[int] = np.flatnonzero((positives > 0) & (positives < FEW_POSITIVES)).tolist()
    return columns


def _likely_slips(classes: Sequence[str], positives: NDArray[np.int64]) -> list[LikelySlip]:
    """Rare classes beside the most frequent class that they may be meant for.

    Two names are a slip apart when they become the same once each has lost a letter at most: one was added, left out,
    mistaken or swapped with its neighbour. So names are looked up by what is left of them, instead of comparing
    thousands of rare classes with thousands of frequent ones.
    """
    plain = [_plain_name(name) for name in classes]
    frequent: dict[str, list[int]] = defaultdict(list)
    for column in np.flatnonzero(positives >= _MUCH_MORE_FREQUENT).tolist():
        for remainder in _remainders(plain[column]):
            frequent[remainder].append(column)
    found: list[LikelySlip] = []
    for column in _rare(positives):
        meant = {
            other
            for remainder in _remainders(plain[column])
            for other in frequent.get(remainder, ())
            if positives[other] >= _MUCH_MORE_FREQUENT * positives[column] and _alike(plain[column], plain[other])
        }
        if meant:
            best = max(meant, key=lambda other: (positives[other], -other))
            found.append(LikelySlip(classes[column], int(positives[column]), classes[best], int(positives[best])))
    return found


def _remainders(name: str) -> set[str]:
    """The name, and what is left of it without each of its letters."""
    if len(name) > _LONGEST_SPELLING:
        return set()
    return {name, *(name[:place] + name[place + 1 :] for place in range(len(name)))}


def _alike(name: str, other: str) -> bool:
    """Whether names are nearly the same: equal ones are clashes already, and other digits name another thing."""
    digits, other_digits = ([sign for sign in text if sign.isdigit()] for text in (name, other))
    return (
        name != other
        and digits == other_digits
        and SequenceMatcher(None, name, other, autojunk=False).ratio() >= _ALIKE
    )


def _labels_differ(table: LabelTable, rows: Sequence[int]) -> bool:
    targets, known = table.targets(rows), table.known(rows)
    return bool((targets != targets[0]).any() or (known != known[0]).any())
