"""The file of answers: one line of JSON each, on disk before the next photo is shown.

| line | says |
| --- | --- |
| `{"image": "a.jpg", "yes": ["dog"], "unsure": []}` | these apply, these are not known, all others do not apply |
| `{"undo": "a.jpg"}` | the answer about this image is taken back |
| `{"label": "sunset"}` | a new label; answers above this line say nothing about it |
| `{"learned": 20}` | suggestions were learned from this many answers, so they are learned again after a restart |

Nothing in the file is ever changed. A line that a crash cut short is dropped, and the next one starts on a line of its
own.
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from tagloom.errors import DataError

MAX_BYTES = 1 << 30
MAX_LABEL = 200


@dataclass(frozen=True)
class Answer:
    """What somebody said about an image.

    Attributes:
        image: Its name in the table.
        yes: Labels that apply.
        unsure: Labels of which it is not known whether they apply. All other labels do not.
        labels: How many new labels there were when it was given; it says nothing about later ones.
    """

    image: str
    yes: tuple[str, ...]
    unsure: tuple[str, ...] = ()
    labels: int = 0


@dataclass
class Answers:
    """All answers in a file, which is created with the first of them.

    Attributes:
        path: The file.
        given: The answers that stand, by image, in the order in which they were given.
        labels: The new labels, in order.
        learned: Whether suggestions were learned from answers.
    """

    path: Path
    given: dict[str, Answer] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    learned: bool = False
    _file: BinaryIO | None = None

    def __post_init__(self) -> None:
        for line in _lines(self.path):
            self._take(line)

    def answer(self, image: str, yes: Sequence[str], unsure: Sequence[str] = ()) -> None:
        """Note an answer, in place of an earlier one about the same image."""
        self._append({"image": image, "yes": list(yes), "unsure": list(unsure)})

    def undo(self) -> str | None:
        """Take back the last answer that stands, and give its image; None if there is none."""
        image = next(reversed(self.given), None)
        if image is not None:
            self._append({"undo": image})
        return image

    def add_label(self, label: str) -> None:
        """Note a new label."""
        self._append({"label": label})

    def note_learned(self, answers: int) -> None:
        """Note that suggestions were learned from this many answers."""
        self._append({"learned": answers})

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, line: dict[str, Any]) -> None:
        """Write a line and wait until it is on disk; only then does it count."""
        file = self._file = self._file or self._opened()
        try:
            file.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n")
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            self.close()  # the next line starts on its own, behind whatever part of this one was written
            raise DataError(f"{self.path}: the answer could not be written ({error.strerror or error}).") from error
        self._take(line)

    def _opened(self) -> BinaryIO:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self.path.open("ab")
        if file.tell():
            with self.path.open("rb") as written:
                written.seek(-1, os.SEEK_END)
                if written.read() != b"\n":
                    file.write(b"\n")
        return file

    def _take(self, line: dict[str, Any]) -> None:
        if isinstance(undone := line.get("undo"), str):
            self.given.pop(undone, None)
        elif "learned" in line:
            self.learned = True
        elif isinstance(label := line.get("label"), str) and label not in self.labels:
            self.labels.append(label)
        elif isinstance(image := line.get("image"), str):
            yes, unsure = (tuple(map(str, line.get(name) or ())) for name in ("yes", "unsure"))
            self.given.pop(image, None)  # so that it stands last, and is undone first
            self.given[image] = Answer(image, yes, unsure, len(self.labels))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Give the whole lines of a file that are objects; none if there is no file."""
    if not path.exists():
        return
    if path.stat().st_size > MAX_BYTES:
        raise DataError(f"{path}: is larger than {MAX_BYTES:,} bytes, which no review is. Name another --out.")
    for number, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
        try:
            line = json.loads(raw.decode("utf-8", "surrogateescape"))
        except (ValueError, RecursionError):
            continue  # cut short by a crash, or empty
        if not isinstance(line, dict):
            raise DataError(f"{path}: line {number} is no answer. Name another --out, or repair the line.")
        yield line
