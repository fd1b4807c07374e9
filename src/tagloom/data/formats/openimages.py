"""Open Images' own files: one row per image and label that somebody, or some network, looked for.

    ImageID,Source,LabelName,Confidence
    000a1249af2bc5f0,verification,/m/0cgh4,1

People say 1 or 0, networks give a confidence between. A pair that has no row is unknown: nobody looked. Beside the file
may lie the names of labels (`class-descriptions.csv`), the labels that can be trained (`classes-trainable.txt`), each
also with a prefix such as `oidv6-`, and what networks say (the table's own name, with `machine` for `human`).
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.sparse import coo_array

from tagloom.data.formats.classes import read_classes
from tagloom.data.formats.delimited import text_lines
from tagloom.data.formats.nuswide import csv_records
from tagloom.data.table import LabelTable, Pairs
from tagloom.errors import DataError

HEADER = ("ImageID", "Source", "LabelName", "Confidence")
_PROBES = 64


def is_open_images(path: Path) -> bool:
    """Whether a path is a CSV file of Open Images' labels, by its first line."""
    if not path.is_file() or path.suffix.lower() != ".csv":
        return False
    try:
        _, first = next(text_lines(path), (0, ""))
    except DataError:
        return False  # the reader of other CSV files says what is wrong with it
    return tuple(first.strip().split(",")) == HEADER


def read_open_images(
    path: Path,
    classes: Sequence[str] | None = None,
    *,
    images: str | Path | None = None,
    machine: Literal["train", "always", "never"] = "train",
    min_confidence: float | str = 0.5,
) -> LabelTable:
    """Read the labels that people gave, and where wanted those of networks.

    Args:
        path: The CSV file of human labels.
        classes: The order of classes, by their names; without it that of classes-trainable.txt beside the file, else
            all that are named, sorted. Labels that are not among them are left out, as papers do with the rare ones.
        images: The folder of the images; without it the first of the usual places beside the file.
        machine: Whether labels of networks are read too: in "train", where the file's name has train in it; "always";
            "never". Where somebody looked, they do not count.
        min_confidence: From which confidence on a label of a network is positive; below, it is unknown.
    """
    if machine not in ("train", "always", "never"):
        raise DataError(f"{path}: machine is 'train', 'always' or 'never', found {machine!r}")
    least = _share(path, min_confidence)
    trainable = _beside(path, "classes-trainable.txt")
    rows = _Rows(path, None if trainable is None else read_classes(trainable))
    rows.add(path, human=True)
    theirs = path.with_name(path.name.replace("human", "machine"))
    if (machine == "always" or (machine == "train" and "train" in path.name)) and theirs != path and theirs.is_file():
        rows.add(theirs, human=False, least=least)
    names = _names(rows.labels, _beside(path, "class-descriptions.csv"))
    paths = [f"{name}.jpg" for name in rows.row_of]
    positive, negative = rows.matrices()
    root = Path(images) if images is not None else _image_folder(path, paths)
    table = LabelTable(root, paths, tuple(names), positive, negative, "unknown", source=str(path), classes_given=True)
    if classes is None:
        return table if trainable is not None else table.with_classes(sorted(names))
    return table.with_classes(classes, on_missing="unknown", on_extra="drop")


class _Rows:
    """Pairs of images and labels, collected while files stream by: 9 bytes a pair."""

    def __init__(self, path: Path, trainable: Sequence[str] | None) -> None:
        self.path = path
        self.row_of: dict[str, int] = {}
        self.labels: dict[str, int] = {name: column for column, name in enumerate(trainable or ())}
        self._closed = trainable is not None
        self._rows, self._columns, self._marks = array("i"), array("i"), array("b")

    def add(self, file: Path, *, human: bool, least: float = 0.5) -> None:
        """Read a file: from people 1 and 0, from networks what is at least so sure."""
        for number, image, label, confidence in _records(file):
            if self._closed and label not in self.labels:
                continue
            if human and confidence not in (0.0, 1.0):
                raise DataError(f"{file}, line {number}: people say 1 or 0, found {confidence}. Are these of networks?")
            if not human and confidence < least:
                continue
            self._rows.append(self.row_of.setdefault(image, len(self.row_of)))
            self._columns.append(self.labels.setdefault(label, len(self.labels)))
            self._marks.append((2 if human else 1) if confidence > 0 else -2)
        if not self.row_of:
            raise DataError(f"{file}: no row has a label that can be trained.")

    def matrices(self) -> tuple[Pairs, Pairs]:
        """The pairs that hold and those that do not; yes wins over no, and people over networks."""
        shape = (len(self.row_of), len(self.labels))
        places = (np.frombuffer(self._rows, np.int32), np.frombuffer(self._columns, np.int32))
        marks = np.frombuffer(self._marks, np.int8)

        def of(mark: int) -> Pairs:
            chosen = marks == mark
            pairs = coo_array((np.ones(int(chosen.sum()), np.bool_), (places[0][chosen], places[1][chosen])), shape)
            return pairs.tocsr().astype(np.bool_)

        yes, no, guessed = of(2), of(-2), of(1)
        no = (no > yes).astype(np.bool_)
        return (yes + (guessed > no)).astype(np.bool_), no


def _records(file: Path) -> Iterator[tuple[int, str, str, float]]:
    """Each row's line number, image, label and confidence."""
    for number, line in text_lines(file):
        fields = [field.strip() for field in line.split(",")]
        if number == 1 and tuple(fields) == HEADER:
            continue
        try:
            image, _, label, confidence = fields
            sure = float(confidence)
        except ValueError:
            if line.isspace():
                continue
            raise DataError(f"{file}, line {number}: {', '.join(HEADER)} are expected, found {line[:80]!r}") from None
        if not 0 <= sure <= 1 or not image.isalnum() or not label:
            raise DataError(
                f"{file}, line {number}: the id of an image, a label and a confidence from 0 to 1 are expected, found "
                f"{line[:80]!r}"
            )
        yield number, image, label, sure


def _names(labels: Sequence[str] | dict[str, int], file: Path | None) -> list[str]:
    """What labels are called: their description, with the label's own code where two have the same one."""
    described = {} if file is None else {row[0]: row[1] for _, row in csv_records(file) if len(row) == 2 and row[1]}
    names = [described.get(label, label) for label in labels]
    times = Counter(names)
    return [name if times[name] == 1 else f"{name} ({label})" for name, label in zip(names, labels, strict=True)]


def _beside(path: Path, name: str) -> Path | None:
    """A file beside the table that has this name, or this name after a prefix such as oidv6-."""
    exact = path.with_name(name)
    return exact if exact.is_file() else next(iter(sorted(path.parent.glob(f"*-{name}"))), None)


def _share(path: Path, value: float | str) -> float:
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise DataError(f"{path}: min_confidence is a number above 0 and up to 1, found {value!r}")
    return share


def _image_folder(path: Path, names: Sequence[str]) -> Path:
    """The first usual place in which one of the first images lies."""
    part = next((part for part in ("train", "validation", "test") if part in path.name), "train")
    places = [path.parent / part, path.parent / "images" / part, path.parent / "images", path.parent]
    for place in places:
        if any((place / name).is_file() for name in names[:_PROBES]):
            return place
    looked = ", ".join(str(place) for place in places)
    raise DataError(
        f"{path}: images such as {names[0]} lie in none of {looked}. Say where with images=FOLDER "
        "(--data-option images=FOLDER)."
    )
