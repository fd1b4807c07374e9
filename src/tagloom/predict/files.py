"""Tagging many images: telling the tagger and the images apart, and writing tags and scores as they come."""

import hashlib
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.data.containers import is_container
from tagloom.data.images import IMAGE_SUFFIXES
from tagloom.data.packed.places import Place, is_address
from tagloom.data.reading import Source
from tagloom.errors import DataError, ImageError
from tagloom.files import is_file, is_folder
from tagloom.hub import HUB_PREFIX
from tagloom.predict.inputs import Found, Shard, count_inputs, find_inputs, is_pattern
from tagloom.predict.journal import Entry, Journal, Sharing, refuse_others
from tagloom.predict.score_files import Scores, write_scores
from tagloom.predict.tag_files import check_no_folder, check_tag_file, need_pyarrow, write_rows, writing
from tagloom.predict.tagger import Tagger
from tagloom.ready import ANY_WORD
from tagloom.scoring.tags import Tag, TagRule
from tagloom.tagger.spec import RUN_FILE, SPEC_FILE

KEPT = "What is done is kept: make room, and continue with the same command and --resume."


def split_arguments(arguments: Sequence[str]) -> tuple[str | None, list[Place]]:
    """Split the arguments of `predict` into the tagger, None if there is none, and the places of the images.

    Only the first argument can be a tagger: "hf-hub:owner/name", a folder with a tagger.json or a run that was
    started, or something that does not exist and has no image suffix: most likely a misspelt tagger. All others are
    what `find_inputs` takes.
    """
    first, rest = arguments[0], arguments[1:]
    for argument in rest:
        if _is_tagger(argument):
            raise DataError(f"{argument}: is a tagger, but stands among the images. Name one tagger, as the first.")
    if _is_tagger(first):
        if not rest:
            raise DataError(f"{first}: is a tagger; name the images to tag after it: tagloom predict {first} a.jpg")
        return first, _places(rest)
    if (
        is_address(first)
        or is_file(Path(first))
        or is_folder(Path(first))
        or is_pattern(Path(first))
        or Path(first).suffix.lower() in IMAGE_SUFFIXES
    ):
        return None, _places(arguments)
    if not rest:
        raise DataError(f"{first}: no such image, folder of images, or tagger folder.")
    return first, _places(rest)


def on_this_disk(places: Sequence[Place]) -> list[Path]:
    """Give places as paths, for work that needs files."""
    if address := next((place for place in places if isinstance(place, str)), None):
        raise DataError(f"{address}: is an address, and this needs files on this disk.")
    return [Path(place) for place in places]


def _places(arguments: Sequence[str]) -> list[Place]:
    return [argument if is_address(argument) else Path(argument) for argument in arguments]


def collect_images(paths: Sequence[Path]) -> list[Path]:
    """List image files, and the images in folders and their subfolders, for work that needs files."""
    return [Path(image.place) for image in find_inputs(paths) if not image.inside]


def read_labels(given: str) -> list[str]:
    """Read labels separated by commas, or from a .txt file with one label per line.

    >>> read_labels('surfboard, golden retriever, "salt, pepper"')
    ['surfboard', 'golden retriever', 'salt, pepper']
    """
    from tagloom.data.parsing.classes import (
        read_classes,  # imported here: tables take longer to import than a tag to find
    )
    from tagloom.data.parsing.fields import split_labels

    if given.lower().endswith(".txt"):
        if not is_file(Path(given)):
            raise DataError(
                f"{given}: no such file. Give a text file with one label per line, or labels separated by commas."
            )
        return list(read_classes(Path(given)))
    return split_labels(given, ",")


def score_images(tagger: Tagger, images: Iterable[Found]) -> Iterator[tuple[Found, NDArray[np.float32] | ImageError]]:
    """Give the scores (N,) of each image, or its error, in order. Images are read as they are needed."""
    waiting: deque[Found] = deque()

    def sources() -> Iterator[Source | ImageError]:
        for image in images:
            waiting.append(image)
            yield image.read()

    for _, result in tagger.stream(sources()):
        yield waiting.popleft(), result


class Tagged(NamedTuple):
    """How many images were tagged, and how many cannot be read."""

    tagged: int
    failed: int


class TagsOrBest(NamedTuple):
    """The tags of an image, and the label that comes nearest to being one, to be named where there are none."""

    tags: list[Tag]
    best: Tag


@dataclass(frozen=True)
class Job:
    """Images to tag, and the files to write about them.

    Attributes:
        tagger: The tagger.
        places: Where the images are; see `find_inputs`.
        out: The file of tags: .csv, .jsonl or .parquet; None for none.
        scores: The .parquet file of all scores; None for none.
        rule: Which classes become tags; None for the tagger's own choice.
        shard: Which part of the images is tagged; None for all.
    """

    tagger: Tagger
    places: Sequence[Place]
    out: Path | None = None
    scores: Path | None = None
    rule: TagRule | None = None
    shard: Shard | None = None

    def count(self) -> int:
        """Count the images, by finding them once."""
        return count_inputs(self.places, self.shard)

    def tags(self) -> Iterator[tuple[Found, TagsOrBest | ImageError]]:
        """Give the tags of each image, or its error, in order."""
        rule = self.rule or self.tagger.rule()
        for image, row in score_images(self.tagger, find_inputs(self.places, self.shard)):
            yield image, row if isinstance(row, ImageError) else TagsOrBest(rule.tags(row), rule.best(row))

    def run(
        self,
        *,
        resume: bool = False,
        on_error: Callable[[ImageError], None] = lambda error: None,
        on_image: Callable[[int], None] = lambda done: None,
    ) -> Tagged:
        """Tag the images and write the files, each whole or not at all. What is done when it is stopped is kept.

        Args:
            resume: Continue the journal of a run that was stopped, if there is one. The files are then the same as
                those of a run that was not stopped; .csv and .jsonl byte for byte.
            on_error: Called with each image that cannot be read.
            on_image: Called with the number of images done, first and after each image. It may raise to stop.

        Raises:
            DataError: If there is a journal and `resume` is not set, or if it was begun with other images or options.
        """
        main = self.check()
        refuse_others(main, Sharing(1))
        with self.filled(main, resume=resume, on_error=on_error, on_image=on_image) as journal:
            self.write(journal.entries)
            journal.delete()
            return Tagged(journal.done - journal.failed, journal.failed)

    @contextmanager
    def filled(
        self,
        beside: Path,
        *,
        resume: bool,
        on_error: Callable[[ImageError], None] = lambda error: None,
        on_image: Callable[[int], None] = lambda done: None,
    ) -> Iterator[Journal]:
        """Tag the images into the journal of the file `beside`, and give it when all are in it; see `run`."""
        rule = self.rule or self.tagger.rule()
        images = find_inputs(self.places, self.shard)
        naming = Naming(beside.parent)
        with (
            writing(beside, KEPT),
            Journal(
                beside,
                self._asked(rule),
                map(naming.name, images),
                resume=resume,
                chunk=self.tagger.pictures_at_once,
                classes=self.kept_scores,
            ) as journal,
        ):
            on_image(journal.done)
            for image, row in score_images(self.tagger, images):
                if isinstance(row, ImageError):
                    on_error(row)
                    journal.add(naming.name(image), None)
                else:
                    journal.add(naming.name(image), rule.tags(row), row if self.kept_scores else None)
                on_image(journal.done)
            yield journal

    def check(self) -> Path:
        """Refuse files that could not be written, and give the one next to which the journal stands."""
        main = self.out or self.scores
        if main is None:
            raise DataError("there is nothing to write: name a file of tags or of scores.")
        if self.out:
            check_tag_file(self.out)
        if self.scores:
            if self.scores.suffix != ".parquet" or self.scores == self.out:
                raise DataError(f"{self.scores}: scores are written as .parquet, to a file of their own.")
            check_no_folder(self.scores)
            need_pyarrow("writing scores")
        return main

    @property
    def kept_scores(self) -> int:
        """How many scores are kept per image; 0 if none are asked for."""
        return len(self.tagger.classes) if self.scores else 0

    def _asked(self, rule: TagRule) -> dict[str, object]:
        """Give all that decides on tags and scores, for the journal."""
        identity = hashlib.blake2b(repr(self.tagger.spec).encode("utf-8", "backslashreplace"), digest_size=16)
        limits = None if rule.limits is None else hashlib.blake2b(rule.limits.tobytes(), digest_size=8).hexdigest()
        return {
            "tagger": f"{identity.hexdigest()} in {self.tagger.engine}",
            "threshold": limits,
            "top_k": rule.most,
            "scores": self.scores is not None,
            "shard": None if self.shard is None else str(self.shard),
        }

    def write(self, entries: Callable[[], Iterator[Entry]]) -> None:
        """Write the files; `entries` gives what is in the journal, as often as it is asked."""
        main = self.check()
        if self.out:
            write_rows(((entry.image, entry.tags) for entry in entries() if entry.tags is not None), self.out)
        if self.scores:
            with writing(self.scores, KEPT):
                rename = Renaming(main.parent, self.scores.parent)
                rows = (Scores(rename(entry.image), entry.scores) for entry in entries() if entry.scores is not None)
                write_scores(rows, self.tagger.spec, self.scores)


class Naming:
    """Names images in a file of tags: relative to its folder, as in a label table.

    A link is named as the link, whatever it points to. A file on another drive is named by its whole path.

    Args:
        folder: The folder of the file of tags.
    """

    def __init__(self, folder: Path) -> None:
        self._real = folder.resolve()
        self._folders = (folder.absolute(), self._real)
        self._last = ("", "")  # a folder of images as it was given, and how names of images in it begin

    def name(self, image: Found) -> str:
        """Give the name of an image as the file of tags writes it; inside another file, that file comes first."""
        place = image.place if isinstance(image.place, str) else self.path(image.place)
        return f"{place}/{image.inside}" if image.inside else place

    def path(self, path: Path) -> str:
        """Give a path as the file of tags writes it."""
        folder, name = os.path.split(path)
        if folder != self._last[0] or not folder:  # neighbours share their folder: this takes as long as a small read
            self._last = (folder, self._beginning(Path(folder)))
        return self._last[1] + name

    def _beginning(self, given: Path) -> str:
        """Give what stands before the names of images in a folder."""
        # Only the real folder above "link/.." is known to the system, so such a path has to be resolved.
        target = given.resolve() if ".." in given.parts else given.absolute()
        for folder in self._folders:
            if target.is_relative_to(folder):
                inside = target.relative_to(folder).as_posix()
                return "" if inside == "." else f"{inside}/"
        try:
            return f"{Path(os.path.relpath(target, self._real)).as_posix()}/"
        except ValueError:  # on Windows, between drives
            return f"{target.as_posix().rstrip('/')}/"


class Renaming:
    """Turns names from a file in one folder into those that a file in another folder writes.

    What an archive or a Parquet file calls an image stays as it is: `../x.jpg` in there leads nowhere.
    """

    def __init__(self, source: Path, target: Path) -> None:
        self._source = source
        self._naming = None if source.resolve() == target.resolve() else Naming(target)
        self._holds_images = cache(lambda name: not is_folder(source / name))  # also for files that are elsewhere now

    def __call__(self, name: str) -> str:
        """Give the new name."""
        if self._naming is None or is_address(name):
            return name
        beginnings = (name[: slash.start()] for slash in re.finditer("/", name))
        place = next((part for part in beginnings if is_container(part) and self._holds_images(part)), name)
        return self._naming.path(self._source / place) + name[len(place) :]


def _is_tagger(argument: str) -> bool:
    """Check for a tagger, or for a run that was started and will be one."""
    named = argument.startswith(HUB_PREFIX) or argument == ANY_WORD
    return named or any(is_file(Path(argument) / name) for name in (SPEC_FILE, RUN_FILE))
