"""Open Images' original files: one row per pair of image and label that a person or a network judged.

    ImageID,Source,LabelName,Confidence
    000a1249af2bc5f0,verification,/m/0cgh4,1

People say 1 or 0; networks give a confidence between. A pair without a row is unknown. Next to the file there may be
the names of labels (`class-descriptions.csv`), the labels that can be trained (`classes-trainable.txt`), both also with
a prefix such as `oidv6-`, and the labels of networks (the table's own name, with `machine` instead of `human`).
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.sparse import coo_array

from tagloom.data.formats.format import Format
from tagloom.data.options import check_option
from tagloom.data.parsing.classes import read_classes
from tagloom.data.parsing.image_paths import find_image_folder
from tagloom.data.parsing.lines import csv_records, text_lines
from tagloom.data.table import LabelTable, Pairs
from tagloom.errors import DataError
from tagloom.wording import shown

HEADER = ("ImageID", "Source", "LabelName", "Confidence")


def is_open_images(path: Path) -> bool:
    """Whether a path is a CSV file of Open Images' labels, by its first line."""
    if not path.is_file() or path.suffix.lower() != ".csv":
        return False
    try:
        _, first = next(text_lines(path), (0, ""))
    except DataError:
        return False  # the reader of CSV files will say what is wrong with it
    return tuple(first.strip().split(",")) == HEADER


def read_open_images(
    path: Path,
    classes: Sequence[str] | None = None,
    *,
    images: str | Path | None = None,
    machine: Literal["train", "always", "never"] = "train",
    min_confidence: float | str = 0.5,
) -> LabelTable:
    """Read the labels given by people, and optionally those given by networks.

    Args:
        path: The CSV file of human labels.
        classes: The order of classes, by name; by default that of classes-trainable.txt next to the file, else all
            labels that occur, sorted. Other labels are dropped, as papers drop the rare ones.
        images: The folder of the images; by default the first of the usual folders near the file.
        machine: When to read the labels of networks as well: for "train", if the file's name contains train;
            "always"; or "never". A person's label overrides a network's.
        min_confidence: The confidence from which a network's label is positive; below it, the pair is unknown.
    """
    check_option(path, "machine", machine, ("train", "always", "never"))
    least = _share(path, min_confidence)
    trainable = _neighbour(path, "classes-trainable.txt")
    rows = _Rows(path, None if trainable is None else read_classes(trainable))
    rows.add(path, human=True)
    theirs = path.with_name(path.name.replace("human", "machine"))
    if (machine == "always" or (machine == "train" and "train" in path.name)) and theirs != path and theirs.is_file():
        rows.add(theirs, human=False, least=least)
    names = _names(rows.labels, _neighbour(path, "class-descriptions.csv"))
    paths = [f"{image}.jpg" for image in rows.row_of]
    positive, negative = rows.matrices()
    root = Path(images) if images is not None else find_image_folder(path, _usual_folders(path), paths)
    table = LabelTable(root, paths, tuple(names), positive, negative, "unknown", source=str(path), classes_given=True)
    if classes is None:
        return table if trainable is not None else table.with_classes(sorted(names))
    return table.with_classes(classes, on_missing="unknown", on_extra="drop")


class _Rows:
    """Pairs of images and labels, collected while files are read, in 9 bytes per pair."""

    def __init__(self, path: Path, trainable: Sequence[str] | None) -> None:
        self.path = path
        self.row_of: dict[str, int] = {}
        self.labels: dict[str, int] = {name: column for column, name in enumerate(trainable or ())}
        self._closed = trainable is not None
        self._rows, self._columns, self._marks = array("i"), array("i"), array("b")

    def add(self, file: Path, *, human: bool, least: float = 0.5) -> None:
        """Read a file: 1 and 0 from people; from networks, labels with at least this confidence."""
        for number, image, label, confidence in _records(file):
            if self._closed and label not in self.labels:
                continue
            if human and confidence not in (0.0, 1.0):
                raise DataError(
                    f"{file}, line {number}: people's labels are 1 or 0, found {confidence}. Are these from a network?"
                )
            if not human and confidence < least:
                continue
            self._rows.append(self.row_of.setdefault(image, len(self.row_of)))
            self._columns.append(self.labels.setdefault(label, len(self.labels)))
            self._marks.append((2 if human else 1) if confidence > 0 else -2)
        if not self.row_of:
            raise DataError(f"{file}: no row has a label that can be trained.")

    def matrices(self) -> tuple[Pairs, Pairs]:
        """Return the positive and the negative pairs. Yes overrides no, and people override networks."""
        shape = (len(self.row_of), len(self.labels))
        rows, columns = np.frombuffer(self._rows, np.int32), np.frombuffer(self._columns, np.int32)
        marks = np.frombuffer(self._marks, np.int8)

        def of(mark: int) -> Pairs:
            chosen = marks == mark
            pairs = coo_array((np.ones(int(chosen.sum()), np.bool_), (rows[chosen], columns[chosen])), shape)
            return pairs.tocsr().astype(np.bool_)

        yes, no, guessed = of(2), of(-2), of(1)
        no = (no > yes).astype(np.bool_)
        return (yes + (guessed > no)).astype(np.bool_), no


def _records(file: Path) -> Iterator[tuple[int, str, str, float]]:
    """Yield the line number, image, label and confidence of each row."""
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
            raise DataError(f"{file}, line {number}: expected {', '.join(HEADER)}, found {shown(line)}") from None
        if not 0 <= sure <= 1 or not image.isalnum() or not label:
            raise DataError(
                f"{file}, line {number}: expected an image id, a label and a confidence from 0 to 1, found "
                f"{shown(line)}"
            )
        yield number, image, label, sure


def _names(labels: Sequence[str] | dict[str, int], file: Path | None) -> list[str]:
    """Name labels by their description, followed by the label's code if two have the same description."""
    described = {} if file is None else {row[0]: row[1] for _, row in csv_records(file) if len(row) == 2 and row[1]}
    names = [described.get(label, label) for label in labels]
    times = Counter(names)
    return [name if times[name] == 1 else f"{name} ({label})" for name, label in zip(names, labels, strict=True)]


def _neighbour(path: Path, name: str) -> Path | None:
    """Find the file next to the table with this name, or with this name after a prefix such as oidv6-."""
    exact = path.with_name(name)
    return exact if exact.is_file() else next(iter(sorted(path.parent.glob(f"*-{name}"))), None)


def _share(path: Path, value: float | str) -> float:
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise DataError(f"{path}: min_confidence must be a number above 0 and up to 1, found {shown(value)}.")
    return share


def _usual_folders(path: Path) -> list[Path]:
    """List the folders in which the images of a table usually are, most likely first."""
    split = next((split for split in ("train", "validation", "test") if split in path.name), "train")
    return [path.parent / split, path.parent / "images" / split, path.parent / "images", path.parent]


OPEN_IMAGES = Format(
    "Open Images",
    "Open Images' .csv file of human image-level labels",
    is_open_images,
    read_open_images,
    ("images", "machine", "min_confidence"),
)
