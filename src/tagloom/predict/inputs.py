"""What to tag: image files, folders, patterns, lists of paths, archives and Parquet files, one image after another.

Images are found while they are tagged, so their number does not matter. Finding them a second time gives the same
images in the same order, unless somebody changes the files.
"""

import glob
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tagloom.data.containers import count_members, is_container, members_of
from tagloom.data.images import walk_images
from tagloom.data.packed.places import Place, is_parquet_name, shards_in
from tagloom.data.reading import Source
from tagloom.data.regular_file import open_regular_text
from tagloom.errors import DataError, ImageError
from tagloom.files import is_file, is_folder
from tagloom.wording import shown

LIST_SUFFIX = ".txt"
_PATTERN_SIGNS = "*?["


class Found(NamedTuple):
    """An image to tag.

    Attributes:
        place: The image file, or the file that holds the image, which may be at an address.
        inside: Its name in that file; empty for an image file.
        read: Gives what a tagger takes. Call it before the next image is asked for, or not at all.
    """

    place: Place
    inside: str
    read: Callable[[], Source | ImageError]

    def __str__(self) -> str:
        return f"{self.place}/{self.inside}" if self.inside else str(self.place)


@dataclass(frozen=True)
class Shard:
    """Every so manieth image: `index` of `count`, counted from 0; or every so manieth block of images."""

    index: int
    count: int
    block: int = 1

    def __str__(self) -> str:
        return f"{self.index + 1}/{self.count}" + (f" in blocks of {self.block}" if self.block > 1 else "")

    def has(self, number: int) -> bool:
        """Whether it has the image of a number, counted from 0."""
        return number // self.block % self.count == self.index

    def share(self, whole: int) -> int:
        """Count what it has of so many images.

        >>> [Shard(index, 3, block=2).share(9) for index in range(3)]
        [4, 3, 2]
        """
        rounds, rest = divmod(whole, self.block * self.count)
        return rounds * self.block + min(max(rest - self.index * self.block, 0), self.block)

    def part(self, index: int, count: int) -> "Shard":
        """Give one of several parts of this shard, again every so manieth image of it.

        >>> Shard(1, 3).part(0, 2), Shard(1, 3).part(1, 2)
        (Shard(index=1, count=6, block=1), Shard(index=4, count=6, block=1))
        """
        return Shard(self.index + index * self.count, self.count * count)


def read_shard(given: str) -> Shard:
    """Read a shard as the command takes it, counted from 1.

    >>> read_shard("3/8")
    Shard(index=2, count=8, block=1)
    """
    number, _, count = given.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise DataError(f"--shard {given}: write it as NUMBER/COUNT, for example 3/8 for the third of eight.")
    return Shard(int(number) - 1, int(count))


def find_inputs(places: Sequence[Place], shard: Shard | None = None) -> Iterator[Found]:
    """Find the images of all places, in order. An image that is named by several places is given once.

    Args:
        places: Image files; folders, which are searched with their subfolders; patterns such as `shards/*.tar`; .txt
            files with a path per line, relative to their own folder; .zip, .tar, .tar.gz and .tar.bz2 archives;
            .parquet files with the pictures' bytes; folders of those; and addresses of either, as text.
        shard: Give only every so manieth of them.
    """
    found = (image for place, images in _each(places) for image in images)
    return found if shard is None else (image for number, image in enumerate(found) if shard.has(number))


def count_inputs(places: Sequence[Place], shard: Shard | None = None) -> int:
    """Count what `find_inputs` gives, without reading pictures where that is possible."""
    whole = sum(
        count_members(place) if is_container(place) else sum(1 for _ in images) for place, images in _each(places)
    )
    return whole if shard is None else shard.share(whole)


def is_pattern(place: Place) -> bool:
    """Whether a place is a pattern of names, and not the name of something that exists."""
    if isinstance(place, str):
        return False
    return any(sign in str(place) for sign in _PATTERN_SIGNS) and not (is_file(place) or is_folder(place))


def _each(places: Iterable[Place]) -> Iterator[tuple[Place, Iterator[Found]]]:
    """Give each place once, and its images without those that were given before."""
    expanded = list(dict.fromkeys(path for place in places for path in _matches(place)))
    seen: set[Place] = set()
    for place in expanded:
        images = _in_place(place)
        if len(expanded) > 1 and not is_container(place):
            images = _unseen(images, seen)
        yield place, images


def _unseen(images: Iterator[Found], seen: set[Place]) -> Iterator[Found]:
    for image in images:
        if image.place not in seen:
            seen.add(image.place)
            yield image


def _matches(place: Place) -> list[Place]:
    """Give the files and folders that a place stands for: those of a pattern, or the shards of packed data."""
    if isinstance(place, str):
        shards: list[Place] = [place] if is_parquet_name(place) else [*shards_in(place)]
        if not shards:
            raise DataError(f"{place}: holds no .parquet file.")
        return shards
    if is_folder(place) and next(walk_images(place), None) is None:
        return [Path(shard) for shard in shards_in(str(place))] or [place]
    if not is_pattern(place):
        return [place]
    found: list[Place] = sorted(map(Path, glob.iglob(str(place), recursive=True)))  # noqa: PTH207, Path.glob takes no whole paths
    if not found:
        raise DataError(f"{place}: no file or folder matches this.")
    return found


def _in_place(place: Place) -> Iterator[Found]:
    if not isinstance(place, str) and is_folder(place):
        images = (_image(path) for path in walk_images(place))
        return _some(images, f"{place}: no image in this folder or its subfolders.")
    if isinstance(place, str) or is_container(place):
        return (Found(place, member.name, member.read) for member in members_of(place))
    if place.suffix.lower() == LIST_SUFFIX:
        return _some(_listed(place), f"{place}: lists no image. Write a path per line.")
    return iter([_image(place)])


def _image(path: Path) -> Found:
    return Found(path, "", lambda: path)


def _some(images: Iterator[Found], otherwise: str) -> Iterator[Found]:
    first = next(images, None)
    if first is None:
        raise DataError(otherwise)
    yield first
    yield from images


def _listed(place: Path) -> Iterator[Found]:
    try:
        with open_regular_text(place, encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                path = line.rstrip("\r\n")
                if "\0" in path or len(path) > 4096:
                    raise DataError(f"{place}, line {number}: {shown(path)} is not a path. Write a path per line.")
                if path.strip():
                    yield _image(place.parent / path)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{place}: cannot be read as a list of paths ({error}).") from error
