"""Photos with keywords: a folder, its subfolders, and what photo programs wrote into sidecars and images.

A keyword that a photo lacks says nothing, since nobody tags everything: the pair is unknown. It is negative only where
somebody reviewed the photo, or took out a keyword that Tagloom had written. Keywords that Tagloom wrote and nobody
confirmed are unknown too: a tagger must not learn from itself.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import TypedDict, Unpack

from tagloom.data.formats.format import Format
from tagloom.data.images import find_images
from tagloom.data.options import check_option
from tagloom.data.parsing.pairs import PairRows
from tagloom.data.photo_keywords import PhotoKeywords, embedded_keywords, read_photo_keywords
from tagloom.data.sidecars import SUFFIX, read_sidecar
from tagloom.data.table import LabelTable
from tagloom.data.tree_labels import with_paths
from tagloom.errors import DataError
from tagloom.progress import Progress, no_progress
from tagloom.wording import listed, shown
from tagloom.xmp.document import read_document
from tagloom.xmp.keywords import find_keywords, plain_form

MIN_COUNT = 5
"""A keyword on fewer photos is left out: there is too little to learn it from."""
_SIDECARS_PROBED, _PHOTOS_PROBED, _ENOUGH = 200, 60, 0.25


class KeywordOptions(TypedDict, total=False):
    """Which keywords become classes, and what it means if a photo lacks one."""

    absent: str
    """"unknown" (the default) or "negative"."""
    min_count: int | str
    """The fewest photos that a keyword is on."""
    include: str | Sequence[str] | None
    """Patterns, such as "Animals*"; only keywords that match one. Text holds them separated by commas."""
    exclude: str | Sequence[str] | None
    """Patterns of keywords to leave out."""


def is_photo_library(path: Path) -> bool:
    """Whether a folder holds photos that somebody gave keywords.

    A few sidecars and a few photos decide. Where there are no sidecars, a quarter of the photos must have keywords
    inside: images of public data sets have them now and then, left over from where they were found.
    """
    if not path.is_dir():
        return False
    sidecars = (file for file in path.rglob(f"*{SUFFIX}") if file.is_file())
    if any(map(_has_own_keywords, islice(sidecars, _SIDECARS_PROBED))):
        return True
    photos = find_images(path)
    probed = photos[:: max(1, len(photos) // _PHOTOS_PROBED)][:_PHOTOS_PROBED]
    return bool(probed) and sum(map(_has_embedded_keywords, probed)) >= _ENOUGH * len(probed)


def read_photo_library(
    path: Path, classes: Sequence[str] | None = None, **options: Unpack[KeywordOptions]
) -> LabelTable:
    """Read the keywords of the photos in a folder.

    Args:
        path: The folder.
        classes: The classes wanted; keywords that are none of them are left out.
        **options: See `KeywordOptions`.
    """
    photos = find_images(path)
    names = [photo.relative_to(path).as_posix() for photo in photos]
    return keyword_table(path, photos, names, classes, source=str(path), **options)


def keyword_table(
    root: Path,
    photos: Sequence[Path],
    names: Sequence[str],
    classes: Sequence[str] | None = None,
    *,
    source: str,
    progress: Progress = no_progress,
    **options: Unpack[KeywordOptions],
) -> LabelTable:
    """Make a label table from the keywords of photos; `names` are their paths relative to the folder `root`."""
    absent = options.get("absent", "unknown")
    check_option(source, "absent", absent, ("unknown", "negative"))
    library = _Library(root, names, source)
    for done, photo in enumerate(photos, start=1):
        library.add(read_photo_keywords(photo))
        progress(done, len(photos))
    chosen = library.choose(classes, _count(options.get("min_count", MIN_COUNT), source), options)
    return library.to_table(chosen, absent, given=classes is not None)


@dataclass(frozen=True)
class _Chosen:
    """The classes, and why other keywords are not among them."""

    classes: tuple[str, ...]
    notes: tuple[str, ...]


class _Library:
    """The keywords of all photos, in few bytes per photo: every path is stored once."""

    def __init__(self, root: Path, images: Sequence[str], source: str) -> None:
        self._root, self._source, self._images = root, source, list(images)
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}  # by plain form
        self._own, self._ours, self._rejected = PairRows(), PairRows(), PairRows()
        self._reviewed: list[int] = []
        self._counts: Counter[int] = Counter()
        self._problems: list[str] = []
        self._sidecars = self._tagged = self._unconfirmed = 0
        self._added = 0

    def add(self, found: PhotoKeywords) -> None:
        """Add the keywords of the next photo."""
        keywords = found.keywords
        own = [self._number(path) for path in keywords.own]
        above = {self._number(prefix) for path in keywords.own for prefix in _prefixes(path)}
        self._counts.update({*own, *above})
        self._own.append(own)
        self._ours.append([self._number(path) for path in keywords.ours])
        self._rejected.append([self._number(path) for path in keywords.rejected])
        if keywords.reviewed:
            self._reviewed.append(self._added)
        self._added += 1
        self._problems += found.problems
        self._sidecars += found.has_sidecar
        self._tagged += bool(own)
        self._unconfirmed += bool(keywords.ours)

    def _number(self, path: str) -> int:
        """Number a keyword. The first spelling counts: `dog` and `Dog` are one keyword."""
        number = self._numbers.setdefault(plain_form(path), len(self._names))
        if number == len(self._names):
            self._names.append(path)
        return number

    def choose(self, classes: Sequence[str] | None, min_count: int, options: KeywordOptions) -> _Chosen:
        """Choose the keywords that become classes."""
        if classes is not None:
            return _Chosen(tuple(classes), ())
        include, exclude = _patterns(options.get("include")), _patterns(options.get("exclude"))
        counts = {name: self._counts[number] for number, name in enumerate(self._names) if self._counts[number]}
        if not counts and self._unconfirmed:
            raise DataError(
                f"{self._source}: all keywords of the {len(self._images):,} photos were written by Tagloom, and a "
                "tagger must not learn from itself. Confirm or correct them (tagloom review), or add some of your own."
            )
        if not counts:
            raise DataError(
                f"{self._source}: none of the {len(self._images):,} photos has a keyword. Give some photos keywords in "
                "a photo program, or bring a table of labels."
            )
        matching = [name for name in counts if _matches(name, include, exclude)]
        kept = sorted(name for name in matching if counts[name] >= min_count)
        if not kept:
            most = max(counts[name] for name in matching) if matching else 0
            raise DataError(
                f"{self._source}: no keyword is left: {len(counts):,} were found, {len(matching):,} of them match, and "
                f"the most frequent of these is on {most:,} photos. Change include and exclude, or lower min_count, "
                f"now {min_count} (--data-option min_count=1)."
            )
        notes = []
        if rare := [name for name in matching if counts[name] < min_count]:
            shortest = listed(map(shown, sorted(rare)), 4)
            notes.append(
                f"{len(rare):,} keywords on fewer than {min_count} photos are left out (min_count): {shortest}"
            )
        if len(matching) < len(counts):
            notes.append(f"left out by include and exclude: {len(counts) - len(matching):,} keywords")
        return _Chosen(tuple(kept), tuple(notes))

    def to_table(self, chosen: _Chosen, absent: str, *, given: bool) -> LabelTable:
        """Make the table of some classes."""
        column_of = {
            self._numbers[plain]: column
            for column, name in enumerate(chosen.classes)
            if (plain := plain_form(name)) in self._numbers
        }
        every, reviewed = range(len(chosen.classes)), set(self._reviewed)
        positive, unknown, negative = PairRows(), PairRows(), PairRows()
        for row in range(len(self._images)):
            own, ours, rejected = (
                {column_of[number] for number in rows.row(row) if number in column_of}
                for rows in (self._own, self._ours, self._rejected)
            )
            own |= self._ancestors(row, column_of)
            positive.append(own)
            unknown.append(ours - own)
            negative.append((set(every) if row in reviewed else rejected) - own - ours)
        exceptions = (negative if absent == "unknown" else unknown).to_matrix(len(chosen.classes))
        alone = (
            ["no pair is negative, and from positives alone a tagger learns to say yes to everything"]
            if absent == "unknown" and not exceptions.nnz
            else []
        )
        return with_paths(
            LabelTable(
                self._root,
                self._images,
                chosen.classes,
                positive.to_matrix(len(chosen.classes)),
                exceptions if exceptions.nnz else None,
                "unknown" if absent == "unknown" else "negative",
                source=self._source,
                classes_given=given,
                understood=(*self._notes(absent), *alone, *chosen.notes),
            )
        )

    def _ancestors(self, row: int, column_of: dict[int, int]) -> set[int]:
        """Give the columns of the keywords above a photo's own, which may be classes where it is too rare to be one."""
        prefixes = (prefix for number in self._own.row(row) for prefix in _prefixes(self._names[number]))
        numbers = (self._numbers[plain_form(prefix)] for prefix in prefixes)
        return {column_of[number] for number in numbers if number in column_of}

    def _notes(self, absent: str) -> Iterator[str]:
        yield (
            f"a photo library: {self._tagged:,} of {len(self._images):,} photos have keywords of their owner, "
            f"{self._sidecars:,} have a sidecar, {len(self._reviewed):,} were reviewed"
        )
        if absent == "unknown":
            yield "a keyword that a photo lacks says nothing: it is unknown, except on photos that were reviewed"
            if len(self._reviewed) < len(self._images):
                yield "if every photo has all keywords that apply, say so with absent=negative: it teaches more"
        else:
            yield "a keyword that a photo lacks counts as negative, as you asked (absent=negative)"
        if self._unconfirmed:
            yield f"{self._unconfirmed:,} photos have keywords of Tagloom that nobody confirmed: not learned from"
        if self._problems:
            yield f"{len(self._problems):,} times metadata could not be read, first: {self._problems[0]}"


def _prefixes(path: str) -> Iterator[str]:
    """Give the keywords above a path, the nearest first."""
    while "|" in path:
        path = path.rpartition("|")[0]
        yield path


def _count(value: object, source: str) -> int:
    """Read min_count, which the command gives as text."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 10:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise DataError(f"{source}: min_count must be a whole number from 1, found {shown(value)}.")
    return value


def _patterns(given: str | Sequence[str] | None) -> list[str]:
    texts = [given] if isinstance(given, str) else list(given or [])
    return [plain_form(pattern.strip()) for text in texts for pattern in text.split(",") if pattern.strip()]


def _matches(name: str, include: Iterable[str], exclude: Iterable[str]) -> bool:
    """Whether a keyword, or one above it, is included, and none of these is excluded."""
    plain = plain_form(name)
    forms = [plain, *_prefixes(plain)]
    included = not include or any(fnmatchcase(form, pattern) for form in forms for pattern in include)
    return included and not any(fnmatchcase(form, pattern) for form in forms for pattern in exclude)


def _has_own_keywords(sidecar: Path) -> bool:
    try:
        found = find_keywords(read_document(read_sidecar(sidecar), str(sidecar)))
    except DataError:
        return False
    return bool(found.own) or found.reviewed


def _has_embedded_keywords(photo: Path) -> bool:
    try:
        return bool(embedded_keywords(photo).own)
    except DataError:
        return False


PHOTO_LIBRARY = Format(
    "photo libraries",
    "a folder of photos with keywords (XMP or IPTC)",
    is_photo_library,
    read_photo_library,
    tuple(KeywordOptions.__annotations__),
    suggested=False,
)
