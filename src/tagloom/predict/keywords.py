"""Writing tags into photos as keywords, and taking them out again: photo by photo, whole or not at all."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import unified_diff
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tagloom.data.embedded import read_embedded
from tagloom.data.exiftool import ExifTool
from tagloom.data.images import walk_images
from tagloom.data.photo_keywords import embedded_keywords
from tagloom.data.sidecars import editable_sidecars, own_sidecar, read_sidecar, write_sidecar
from tagloom.errors import DataError, ImageError
from tagloom.files import is_file, is_folder
from tagloom.predict.tagger import Tagger
from tagloom.scoring.tags import TagRule
from tagloom.xmp.document import read_document
from tagloom.xmp.editing import EMPTY, EMPTY_PACKET, Writing, is_empty_packet, with_review, with_tags, without_tags
from tagloom.xmp.encoding import decode
from tagloom.xmp.keywords import find_keywords, plain_form
from tagloom.xmp.marks import Marks, ScoredTag, read_marks

MAX_TAGS = 8
AT_ONCE = 32
"""Photos that one exiftool changes: starting it takes as long as changing several."""
Outcome: TypeAlias = Literal["written", "removed", "unchanged", "skipped", "inside", "failed"]


class Photos:
    """Photos, and the photos in folders, found again each time: a library is never in memory at once.

    Raises:
        DataError: If a folder holds no photo.
    """

    def __init__(self, places: Sequence[Path]) -> None:
        self._places = places
        for place in places:
            if is_folder(place) and next(walk_images(place), None) is None:
                raise DataError(f"{place}: no image in this folder or its subfolders.")

    def __iter__(self) -> Iterator[Path]:
        for place in self._places:
            if is_folder(place):
                yield from walk_images(place)
            else:
                yield place

    def count(self) -> int:
        """Count the photos, for progress."""
        return sum(1 for _ in self)


class PhotoResult(NamedTuple):
    """What became of a photo.

    Attributes:
        photo: The photo.
        outcome: "written", "removed", "unchanged", "skipped" (an earlier run has written it), "inside" (there are
            keywords to remove, but inside the photo) or "failed".
        target: The file that was changed, or would be.
        diff: How its XMP changes, as lines; only in a dry run.
        error: Why it failed.
    """

    photo: Path
    outcome: Outcome
    target: Path
    diff: tuple[str, ...] = ()
    error: str = ""


class Pending(NamedTuple):
    """A photo whose XMP is ready to be written, and what will then have become of it."""

    result: PhotoResult
    xmp: bytes


@dataclass(frozen=True)
class Place:
    """Where keywords are: in sidecars, or with an exiftool inside the photos. A dry run changes nothing."""

    exiftool: ExifTool | None = None
    dry_run: bool = False

    def target(self, photo: Path) -> Path:
        """Give the file to write to; a sidecar may not exist yet."""
        return own_sidecar(photo) if self.exiftool is None else photo

    def targets(self, photo: Path) -> list[Path]:
        """List the files that may hold what was written."""
        return editable_sidecars(photo) if self.exiftool is None else [photo]

    def read(self, target: Path) -> bytes:
        """Read the XMP in a file; where there is none, an empty document."""
        if self.exiftool is not None:
            return read_embedded(target).xmp or EMPTY_PACKET
        return read_sidecar(target) if is_file(target) else EMPTY

    def put(self, photo: Path, target: Path, before: bytes, after: bytes, outcome: Outcome) -> "PhotoResult | Pending":
        """Put new XMP in the place of the old; none at all where nothing is left of what Tagloom began.

        What goes into a photo is pending until `carry_out`.
        """
        if after == before:
            return PhotoResult(photo, "unchanged", target)
        if self.dry_run:
            return PhotoResult(photo, outcome, target, tuple(_diff(before, after, str(target))))
        if self.exiftool is not None:
            return Pending(PhotoResult(photo, outcome, target), b"" if is_empty_packet(after) else after)
        if after == EMPTY:
            target.unlink()
        else:
            write_sidecar(target, after)
        return PhotoResult(photo, outcome, target)

    def carry_out(self, results: "Iterable[PhotoResult | Pending]") -> Iterator[PhotoResult]:
        """Give results in their order. Those that are pending are written some at a time."""
        held: list[PhotoResult | Pending] = []
        for result in results:
            if isinstance(result, PhotoResult) and not held:
                yield result
                continue
            held.append(result)
            if len(held) == AT_ONCE:
                yield from self._written(held)
                held = []
        yield from self._written(held)

    def _written(self, held: "Sequence[PhotoResult | Pending]") -> Iterator[PhotoResult]:
        pending = [item for item in held if isinstance(item, Pending)]
        changes = [(item.result.target, item.xmp) for item in pending]
        errors = iter(self.exiftool.write_all(changes) if self.exiftool is not None and changes else ())
        for item in held:
            if isinstance(item, PhotoResult):
                yield item
            elif error := next(errors):
                yield item.result._replace(outcome="failed", error=error)
            else:
                yield item.result


def write_keywords(
    tagger: Tagger,
    photos: Iterable[Path],
    *,
    max_tags: int = MAX_TAGS,
    rule: TagRule | None = None,
    place: Place | None = None,
    resume: bool = False,
) -> Iterator[PhotoResult]:
    """Tag photos, and write the tags as keywords. Give what became of each photo as it is done.

    Keywords of earlier writings are replaced, those of the owner stay. A photo that cannot be read, or whose XMP is
    damaged, is left as it is.

    Args:
        tagger: The tagger.
        photos: The image files.
        max_tags: The most tags per photo.
        rule: Which classes become tags; None for the tagger's own choice.
        place: Where to write; by default sidecars.
        resume: Skip photos that this tagger has already written with these settings.
    """
    place = place or Place()
    rule = rule or tagger.rule()
    return place.carry_out(_tagged(tagger, photos, max_tags, rule, place, resume))


def _tagged(
    tagger: Tagger, photos: Iterable[Path], max_tags: int, rule: TagRule, place: Place, resume: bool
) -> Iterator[PhotoResult | Pending]:
    settings = settings_digest(tagger, rule, max_tags)
    base = Writing((), Path(tagger.name).name, settings, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    numbers = count()
    waiting: dict[int, Path] = {}
    skipped: list[PhotoResult] = []

    def to_tag() -> Iterator[Path]:
        for photo in photos:
            if resume and _marks(place, photo).settings == settings:
                skipped.append(PhotoResult(photo, "skipped", place.target(photo)))
            else:
                waiting[next(numbers)] = photo
                yield photo

    for index, scores in tagger.stream(to_tag()):
        while skipped:
            yield skipped.pop(0)
        photo = waiting.pop(index)
        if isinstance(scores, ImageError):
            yield PhotoResult(photo, "failed", place.target(photo), error=str(scores))
        else:
            yield _write(place, photo, replace(base, tags=tuple(chosen_tags(tagger, rule, scores, max_tags))))
    yield from skipped


def review_keywords(photo: Path, keywords: Sequence[str], date: str, place: Place | None = None) -> PhotoResult:
    """Write what somebody found in a photo as their own keywords, and mark the photo as reviewed.

    Keywords of Tagloom's that are not among them are taken out. The mark says that what the photo lacks does not apply.

    Args:
        photo: The photo.
        keywords: The labels that apply, as paths.
        date: When it was reviewed; empty to write the keywords without the mark.
        place: Where to write; by default sidecars.
    """
    place = place or Place()
    target = place.target(photo)
    try:
        before = place.read(target)
        found = find_keywords(read_document(before, str(target)))
        # A new sidecar repeats what is inside the photo, since some programs then look nowhere else.
        repeated = () if place.exiftool is not None or found.own else _keywords_inside(photo)
        words = [*keywords, *repeated]
        has = {plain_form(path) for path in found.own}
        if found.reviewed == bool(date) and not found.ours and has.issuperset(map(plain_form, words)):
            return PhotoResult(photo, "unchanged", target)  # only the date would change
        put = place.put(photo, target, before, with_review(before, str(target), words, date), "written")
        return next(place.carry_out([put]))
    except DataError as error:
        return PhotoResult(photo, "failed", target, error=str(error))


def remove_keywords(photos: Iterable[Path], *, place: Place | None = None) -> Iterator[PhotoResult]:
    """Take out what `write_keywords` wrote. Give what became of each photo as it is done."""
    place = place or Place()
    return place.carry_out(_cleaned(photos, place))


def _cleaned(photos: Iterable[Path], place: Place) -> Iterator[PhotoResult | Pending]:
    for photo in photos:
        if not is_file(photo):
            yield PhotoResult(photo, "failed", place.target(photo), error=f"{photo}: no such file.")
            continue
        results = [_remove(place, photo, target) for target in place.targets(photo)]
        changed = [result for result in results if isinstance(result, Pending) or result.outcome != "unchanged"]
        if not changed and place.exiftool is None and _has_marks_inside(photo):
            changed = [PhotoResult(photo, "inside", photo)]
        yield from changed or [PhotoResult(photo, "unchanged", place.target(photo))]


def chosen_tags(tagger: Tagger, rule: TagRule, scores: NDArray[np.float32], max_tags: int) -> list[ScoredTag]:
    """Choose the tags to write from a photo's scores (N,), best first, as paths of the tagger's label tree.

    A tag that is part of the path of another tag is not chosen by itself: `Animals|Dog` says `Animals` too.
    """
    path_of = dict(zip(tagger.classes, tagger.spec.tree.paths, strict=True))
    tags = [ScoredTag(path_of[tag.label], tag.score) for tag in rule.tags(scores)]
    said = {prefix for tag in tags for prefix in _prefixes(tag.path)}
    return [tag for tag in tags if tag.path not in said][:max_tags]


def settings_digest(tagger: Tagger, rule: TagRule, max_tags: int) -> str:
    """Hash all that decides which tags are written: the tagger, and how tags are chosen."""
    limits = None if rule.limits is None else rule.limits.tolist()
    asked = f"{tagger.spec!r} {limits} {max_tags}"
    return hashlib.blake2b(asked.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()


def _write(place: Place, photo: Path, writing: Writing) -> PhotoResult | Pending:
    target = place.target(photo)
    try:
        before = place.read(target)
        if place.exiftool is None:
            writing = replace(writing, in_image=_keywords_inside(photo))
        marks = read_marks(read_document(before, str(target)))
        if marks.date and with_tags(before, str(target), replace(writing, date=marks.date)) == before:
            return PhotoResult(photo, "unchanged", target)  # only the date would change
        after = with_tags(before, str(target), writing)
        return place.put(photo, target, before, after, "written")
    except DataError as error:
        return PhotoResult(photo, "failed", target, error=str(error))


def _remove(place: Place, photo: Path, target: Path) -> PhotoResult | Pending:
    try:
        before = place.read(target)
        return place.put(photo, target, before, without_tags(before, str(target)), "removed")
    except DataError as error:
        return PhotoResult(photo, "failed", target, error=str(error))


def _marks(place: Place, photo: Path) -> Marks:
    """Read our marks; none where there is nothing to read, or nothing that can be read."""
    try:
        target = place.target(photo)
        return read_marks(read_document(place.read(target), str(target)))
    except DataError:
        return Marks()


def _has_marks_inside(photo: Path) -> bool:
    """Whether keywords of ours are inside a photo."""
    try:
        xmp = read_embedded(photo).xmp
        return bool(xmp) and bool(read_marks(read_document(xmp, str(photo))).added)
    except DataError:
        return False


def _keywords_inside(photo: Path) -> tuple[str, ...]:
    """Read the owner's keywords inside a photo; damage there is no reason to write no sidecar."""
    try:
        return embedded_keywords(photo).own
    except DataError:
        return ()


def _prefixes(path: str) -> Iterator[str]:
    while "|" in path:
        path = path.rpartition("|")[0]
        yield path


def _diff(before: bytes, after: bytes, name: str) -> Iterator[str]:
    """Show what changes in a document, as lines; nothing is left of one that is removed, and nothing was before it."""
    old, new = (
        [] if data == EMPTY or is_empty_packet(data) else decode(data, name)[0].decode("utf-8").splitlines()
        for data in (before, after)
    )
    return unified_diff(old, new, name if old else "(no XMP)", name if new else "(no XMP)", lineterm="", n=1)
