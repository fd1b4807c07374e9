"""The journal of a prediction: what is done so far, so that a stopped one can continue.

It stands next to the file of tags. Its first line says what was asked. Each further line holds an image and its tags,
or null if the image cannot be read. A line that is cut off does not count. Scores, if they are kept, stand in a second
file, a row of float16 for each line. When all images are done, the files that were asked for are written from the
journal, and the journal is deleted. It is read and written line by line, so it may be of any length.
"""

import glob
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import DataError
from tagloom.files import PARTIAL_SUFFIX
from tagloom.scoring.tags import Tag
from tagloom.wording import shown

FORMAT = 1
SCORES_SUFFIX = f".scores{PARTIAL_SUFFIX}"


class Entry(NamedTuple):
    """An image, by the name that the file of tags gives it, its tags, and its scores if they are kept.

    Tags and scores are None if the image cannot be read.
    """

    image: str
    tags: list[Tag] | None
    scores: NDArray[np.float16] | None = None


class Journal:
    """Collects the tags of images in order. Use it as a context manager.

    Leaving it closes the journal and keeps it, unless it holds no image; `delete` removes it. An `OSError` while it is
    written, on a full disk for example, is raised as it is.

    Args:
        out: The file of tags.
        asked: All that decides the tags, besides the images. A journal with other answers is not continued.
        images: The images to tag, by the names that the file of tags gives them. Those that are done already are taken
            from it and compared; the next that it gives is the next to tag.
        resume: Continue the journal, if there is one. Otherwise one that holds images is an error.
        chunk: Continue after a multiple of this many images, so that batches are those of a run that was not stopped.
        classes: How many scores are kept per image; 0 for none.

    Attributes:
        path: The journal's file.
        done: How many images it holds.
        failed: How many of them cannot be read.
    """

    def __init__(
        self,
        out: Path,
        asked: Mapping[str, Any],
        images: Iterator[str],
        *,
        resume: bool = False,
        chunk: int = 1,
        classes: int = 0,
    ) -> None:
        self.path = journal_path(out)
        self.done = self.failed = 0
        self._out = out
        self._asked = {"format": FORMAT, **asked}
        self._classes = classes
        self._scores: BinaryIO | None = None
        self._file = _open(self.path)
        try:
            self._lock()
            if classes:
                self._scores = _open(_scores_path(out))
            self._begin(images, resume, chunk)
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._file.closed:
            self._close()
            if not self.done:
                self.delete()

    def add(self, image: str, tags: list[Tag] | None, scores: NDArray[np.floating] | None = None) -> None:
        """Append the next image with its tags and scores, or with None if it cannot be read."""
        if self._scores is not None:  # before the line, which makes it count
            row = np.full(self._classes, np.nan, np.float16) if scores is None else scores.astype(np.float16)
            self._scores.write(row.tobytes())
            self._scores.flush()
        self._write([image, tags])
        self.done += 1
        self.failed += tags is None

    def entries(self) -> Iterator[Entry]:
        """Read all images and their tags, from the first."""
        return _entries(self._file, self._scores, self._classes)

    def delete(self) -> None:
        """Close and remove the journal, once the tags are in their file."""
        self._close()
        delete_journal(self._out)

    def _begin(self, images: Iterator[str], resume: bool, chunk: int) -> None:
        """Find out what the files hold, and go to the end of what is to be kept."""
        asked = self._read_line()
        start = self._file.tell()
        count = 0 if asked is None else sum(1 for _ in self._kept_lines())
        if self._scores is not None:
            count = min(count, os.fstat(self._scores.fileno()).st_size // (2 * self._classes))
        if count and not resume:
            raise DataError(
                f"{self.path}: holds {count:,} images of a prediction that was stopped. Continue it with "
                "--resume, or delete that file to start over."
            )
        if count and asked != self._asked:
            found = asked if isinstance(asked, dict) else {}
            other = [name for name in self._asked if found.get(name) != self._asked[name]]
            raise DataError(
                f"{self.path}: was begun with another {' and another '.join(other) or 'format'}. Continue with the "
                "same tagger and options, or delete that file to start over."
            )
        self._file.seek(start)
        self._keep(images, count // chunk * chunk)

    def _keep(self, images: Iterator[str], count: int) -> None:
        """Check that the first images are still the same, and cut off what comes after them."""
        for number, (image, tags) in enumerate(islice(self._kept_lines(), count), 1):
            now = next(images, None)
            if now != image:
                raise DataError(
                    f"{self.path}: image {number:,} was {shown(image)} and is now "
                    f"{'missing' if now is None else shown(now)}, so the images are not those that it was begun with. "
                    "Restore them, or delete that file to start over."
                )
            self.failed += tags is None
        self.done = count
        self._file.seek(self._file.tell() if count else 0)
        self._file.truncate()
        if self._scores is not None:
            self._scores.seek(2 * self._classes * count)
            self._scores.truncate()
        if not count:
            self._write(self._asked)

    def _kept_lines(self) -> Iterator[list[Any]]:
        """Read image after image, up to the first line that is not complete."""
        while isinstance(line := self._read_line(), list) and len(line) == 2:
            yield line

    def _read_line(self) -> Any:
        """Read a line; None at the end, and for one that was cut off."""
        line = self._file.readline()
        if not line.endswith(b"\n"):
            return None
        try:
            return json.loads(line)
        except (ValueError, RecursionError):
            return None

    def _write(self, content: object) -> None:
        self._file.write(json.dumps(content, allow_nan=False).encode("ascii") + b"\n")
        self._file.flush()

    def _close(self) -> None:
        for file in (self._file, self._scores):
            with suppress(OSError):  # on a full disk, where the error was raised before
                if file is not None:
                    file.close()

    def _lock(self) -> None:
        """Refuse a journal that another process is writing. The system unlocks it when that process ends."""
        if os.name != "posix":
            return
        import fcntl

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(
                f"{self._out}: another process is writing its tags. Wait for it, or name another --out."
            ) from None
        except OSError:  # a file system without locks
            return


def read_entries(out: Path, classes: int = 0) -> Iterator[Entry]:
    """Read a journal that is complete: images, tags, and so many scores of each; nothing if there is no journal."""
    if not journal_path(out).exists():
        return
    with journal_path(out).open("rb") as file, ExitStack() as stack:
        scores = stack.enter_context(_scores_path(out).open("rb")) if classes else None
        yield from _entries(file, scores, classes)


def in_turn(journals: Sequence[Iterator[Entry]], block: int = 1) -> Iterator[Entry]:
    """Put the parts of a prediction together in the order of the images: a block of each, again and again."""
    while True:
        given = 0
        for journal in journals:
            for entry in islice(journal, block):
                given += 1
                yield entry
        if not given:
            return


def delete_journal(out: Path) -> None:
    """Remove the journal of a file of tags, and its scores, if there are any."""
    for path in (journal_path(out), _scores_path(out)):
        with suppress(OSError):
            path.unlink()


def part_of(out: Path, number: int, of: int) -> Path:
    """Name the part of a file of tags that one of several processes works on, counted from 1.

    >>> part_of(Path("tags.csv"), 1, of=2).name
    'tags.csv.1-of-2'
    """
    return out.with_name(f"{out.name}.{number}-of-{of}")


class Sharing(NamedTuple):
    """How a prediction is shared out: among so many processes, or into so many parts on Ray."""

    shares: int
    on_ray: bool = False

    def __str__(self) -> str:
        return f"--engine ray --parts {self.shares}" if self.on_ray else f"--processes {self.shares}"


def refuse_others(out: Path, mine: Sharing) -> None:
    """Refuse to begin next to journals of a prediction that was shared out otherwise: what it did would be lost."""
    for path, found in _left_behind(out):
        if found != mine:
            those = f"{out.name}.part-* files" if found.on_ray else f"{out.name}.*{PARTIAL_SUFFIX} files"
            how = f"--engine local {found}" if mine.on_ray and not found.on_ray else str(found)
            raise DataError(
                f"{path}: belongs to a prediction with {found} that was stopped. Continue it with the same command, "
                f"{how} and --resume, or delete its {those} to start over."
            )


def _left_behind(out: Path) -> Iterator[tuple[Path, Sharing]]:
    """Give the journals next to a file of tags, and how their predictions were shared out."""
    if journal_path(out).exists():
        yield journal_path(out), Sharing(1)
    name = re.compile(rf"{re.escape(out.name)}\.(part-)?[0-9]+-of-([0-9]+){re.escape(PARTIAL_SUFFIX)}")
    for path in sorted(out.parent.glob(f"{glob.escape(out.name)}.*{PARTIAL_SUFFIX}")):
        if found := name.fullmatch(path.name):
            yield path, Sharing(int(found[2]), on_ray=found[1] is not None)


def _entries(file: BinaryIO, scores: BinaryIO | None, classes: int) -> Iterator[Entry]:
    file.seek(0)
    next(file)
    if scores is not None:
        scores.seek(0)
    for line in file:
        image, tags = json.loads(line)
        row = None if scores is None else np.frombuffer(scores.read(2 * classes), np.float16)
        yield Entry(image, None, None) if tags is None else Entry(image, [Tag(*tag) for tag in tags], row)


def journal_path(out: Path) -> Path:
    """Give the file that holds the tags of an unfinished prediction."""
    return out.with_name(out.name + PARTIAL_SUFFIX)


def _scores_path(out: Path) -> Path:
    return out.with_name(out.name + SCORES_SUFFIX)


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("r+b" if path.exists() else "x+b")
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error}). Name another --out.") from error
