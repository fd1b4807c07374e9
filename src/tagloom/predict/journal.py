"""The journal of a prediction: what is done so far, so that a stopped one can continue.

It stands next to the file of tags. Its first line says what was asked. Each further line holds an image and its tags,
or null if the image cannot be read. A line that is cut off does not count. When all images are done, the file of tags
is written from the journal in one step, and the journal is deleted.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

from tagloom.errors import DataError
from tagloom.files import PARTIAL_SUFFIX
from tagloom.predict.tagger import Tag
from tagloom.wording import shown

FORMAT = 1


class Entry(NamedTuple):
    """An image, by the name that the file of tags gives it, and its tags; None if it cannot be read."""

    image: str
    tags: list[Tag] | None


class Journal:
    """Collects the tags of images in order. Use it as a context manager.

    Leaving it closes the journal and keeps it, unless it holds no image; `delete` removes it. An `OSError` while it is
    written, on a full disk for example, is raised as it is.

    Args:
        out: The file of tags.
        asked: All that decides the tags, besides the images. A journal with other answers is not continued.
        images: The images to tag, by the names that the file of tags gives them.
        resume: Continue the journal, if there is one. Otherwise one that holds images is an error.
        chunk: Continue after a multiple of this many images, so that batches are those of a run that was not stopped.

    Attributes:
        path: The journal's file.
        done: How many images it holds.
        failed: How many of them cannot be read.
    """

    def __init__(
        self, out: Path, asked: Mapping[str, Any], images: Sequence[str], *, resume: bool = False, chunk: int = 1
    ) -> None:
        self.path = journal_path(out)
        self.done = self.failed = 0
        self._out = out
        self._asked = {"format": FORMAT, **asked}
        self._images = images
        try:
            self._file: BinaryIO = self.path.open("r+b" if self.path.exists() else "x+b")
        except OSError as error:
            raise DataError(f"{self.path}: cannot be written ({error}). Name another --out.") from error
        try:
            self._lock()
            self._begin(resume, chunk)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._file.closed:
            with suppress(OSError):  # on a full disk, where the error was raised before
                self._file.close()
            if not self.done:
                self.delete()

    def add(self, tags: list[Tag] | None) -> None:
        """Append the tags of the next image, or None if it cannot be read."""
        self._write([self._images[self.done], tags])
        self.done += 1
        self.failed += tags is None

    def entries(self) -> Iterator[Entry]:
        """Read all images and their tags, from the first."""
        self._file.seek(0)
        next(self._file)
        for line in self._file:
            image, tags = json.loads(line)
            yield Entry(image, None if tags is None else [Tag(*tag) for tag in tags])

    def delete(self) -> None:
        """Close and remove the journal, once the tags are in their file."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self.path.unlink()

    def _begin(self, resume: bool, chunk: int) -> None:
        """Find out what the file holds, and go to the end of what is to be kept."""
        asked = self._read_line()
        entries = [] if asked is None else self._read_entries()
        if entries and not resume:
            raise DataError(
                f"{self.path}: holds {len(entries):,} images of a prediction that was stopped. Continue it with "
                "--resume, or delete that file to start over."
            )
        if not entries:
            self._file.seek(0)
            self._file.truncate()
            self._write(self._asked)
            return
        if asked != self._asked:
            found = asked if isinstance(asked, dict) else {}
            other = [name for name in self._asked if found.get(name) != self._asked[name]]
            raise DataError(
                f"{self.path}: was begun with another {' and another '.join(other) or 'format'}. Continue with the "
                "same tagger and options, or delete that file to start over."
            )
        self._keep(entries, chunk)

    def _keep(self, entries: list[tuple[Any, bool, int]], chunk: int) -> None:
        """Check that the images are still the same, and cut off what does not fill a chunk."""
        for number, (image, _, _) in enumerate(entries):
            if number >= len(self._images) or image != self._images[number]:
                now = shown(self._images[number]) if number < len(self._images) else "missing"
                raise DataError(
                    f"{self.path}: image {number + 1:,} was {shown(image)} and is now {now}, so the images are not "
                    "those that it was begun with. Restore them, or delete that file to start over."
                )
        self.done = len(entries) if len(entries) == len(self._images) else len(entries) // chunk * chunk
        self.failed = sum(failed for _, failed, _ in entries[: self.done])
        self._file.seek(entries[self.done - 1][2] if self.done else 0)
        self._file.truncate()
        if not self.done:
            self._write(self._asked)

    def _read_entries(self) -> list[tuple[Any, bool, int]]:
        """Read each image, whether it failed, and where its line ends; up to the first line that is not complete."""
        entries: list[tuple[Any, bool, int]] = []
        while isinstance(line := self._read_line(), list) and len(line) == 2:
            entries.append((line[0], line[1] is None, self._file.tell()))
        return entries

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


def journal_path(out: Path) -> Path:
    """Give the file that holds the tags of an unfinished prediction."""
    return out.with_name(out.name + PARTIAL_SUFFIX)
