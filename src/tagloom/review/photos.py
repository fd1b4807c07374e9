"""What is reviewed: a label table, or photos with the labels in their keywords; and what is known of each pair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tagloom.data.formats import FORMATS, load_table
from tagloom.data.formats.class_folders import CLASS_FOLDERS
from tagloom.data.images import find_images, has_image_suffix
from tagloom.data.label_tree import LabelTree
from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.files import is_folder
from tagloom.review.answers import Answers


def read_table(places: Sequence[Path], tagger_classes: Sequence[str], options: Mapping[str, str]) -> LabelTable:
    """Read what is to be reviewed as a label table.

    A table whose unlisted pairs are negative has the classes that it needs. Where absence says nothing, as with
    keywords, the labels of the tagger are offered too; and photos without labels have no others.

    Args:
        places: A label table, a folder of photos, or photos.
        tagger_classes: The labels of the tagger.
        options: How the table is read, as `load_table` takes it.
    """
    table = _labels(places, options)
    if table.task == "single":
        raise DataError(f"{table.source}: has exactly one label per image; a review is about images with many labels.")
    if table.unlisted == "negative":
        return table
    known = set(table.classes)
    return table.with_classes(
        [*table.classes, *(name for name in tagger_classes if name not in known)], on_missing="unknown"
    )


def _labels(places: Sequence[Path], options: Mapping[str, str]) -> LabelTable:
    first = places[0]
    if len(places) == 1 and not has_image_suffix(first.name):
        found = next((entry for entry in FORMATS if entry.recognises(first)), None) if first.exists() else None
        if not is_folder(first) or (found is not None and found is not CLASS_FOLDERS):
            return load_table(first, **options)
    if options:
        raise DataError(f"{first}: these photos have no labels, so --data-option does not apply. Leave it out.")
    images = [photo for place in places for photo in (find_images(place) if is_folder(place) else [place])]
    if missing := [photo for photo in images if not photo.is_file()]:
        raise DataError(f"{missing[0]}: there is no such file or folder.")
    if not images:
        raise DataError(f"{first}: no image in this folder or its subfolders.")
    root = first if len(places) == 1 and is_folder(first) else Path()
    names = [photo.relative_to(root).as_posix() if root != Path() else photo.as_posix() for photo in images]
    nothing = csr_array((len(names), 0), dtype=np.bool_)
    return LabelTable(root, list(dict.fromkeys(names)), (), nothing, unlisted="unknown", source=str(first))


@dataclass(frozen=True)
class Knowledge:
    """What is known about each pair, (images, classes) each: the table's labels, and over them the answers.

    Attributes:
        targets: Whether a pair is positive.
        known: Whether it is known.
    """

    targets: NDArray[np.bool_]
    known: NDArray[np.bool_]

    def table(self, images: LabelTable, classes: Sequence[str], names: Sequence[str], root: Path) -> LabelTable:
        """Give it as a label table under other names of the images."""
        everything = bool(self.known.all())
        return LabelTable(
            root,
            list(names),
            tuple(classes),
            csr_array(self.targets & self.known),
            None if everything else csr_array(~self.targets & self.known),
            "negative" if everything else "unknown",
            source=images.source,
            classes_given=True,
            parents=images.parents,
        )


def what_is_known(table: LabelTable, classes: Sequence[str], answers: Answers, row_of: Mapping[str, int]) -> Knowledge:
    """Put answers over the labels of a table, with a column for each of the classes, the table's first."""
    shape = (len(table), len(classes))
    targets, known = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    rows, width = np.arange(len(table)), len(table.classes)
    targets[:, :width], known[:, :width] = table.targets(rows) == 1, table.known(rows)
    column_of = {name: column for column, name in enumerate(classes)}
    tree = LabelTree(classes, table.parents)
    for answer in answers.given.values():
        if (row := row_of.get(answer.image)) is None:
            continue
        targets[row], known[row] = False, False
        known[row, : width + answer.labels] = True
        for name in answer.unsure:
            if name in column_of:
                known[row, column_of[name]] = False
        for name in answer.yes:
            column = column_of.get(name, -1)
            while column >= 0:  # a dog is an animal, whatever was said of animals
                targets[row, column] = known[row, column] = True
                column = int(tree.parent[column])
    return Knowledge(targets, known)
