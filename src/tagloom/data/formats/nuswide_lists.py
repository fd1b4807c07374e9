r"""NUS-WIDE's original files: lists of images, and for each concept a list with a 0 or 1 for every image.

    ImageList/TrainImagelist.txt                            actor\0001_2124494179.jpg
    Groundtruth/TrainTestLabels/Labels_airport_Train.txt    0
    ImageList/Imagelist.txt
    Groundtruth/AllLabels/Labels_airport.txt

The images are in Flickr/. Many of the 161,789 and 107,859 images have none of the 81 concepts. Papers drop those, and
train and score on 125,449 and 83,898.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tagloom.data.formats.format import Format
from tagloom.data.options import check_option
from tagloom.data.parsing.image_paths import check_distinct, checked_path, find_image_folder
from tagloom.data.parsing.lines import text_lines
from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.wording import shown

MAX_IMAGES = 5_000_000
MAX_CONCEPTS = 10_000
# The archives unpack into a folder of the same name, sometimes twice.
_LIST_FOLDERS = ("ImageList", "ImageList/ImageList", ".")
_LABEL_FOLDERS = ("Groundtruth/", "Groundtruth/Groundtruth/", "")
_IMAGE_FOLDERS = ("Flickr", "Flickr/Flickr", "images", ".")


class _Split(NamedTuple):
    """Where a split is: the list of its images, the folder of its labels, and how the names of its files end."""

    images: str
    labels: str
    ending: str


_SPLITS = {
    "train": _Split("TrainImagelist.txt", "TrainTestLabels", "_Train.txt"),
    "test": _Split("TestImagelist.txt", "TrainTestLabels", "_Test.txt"),
    "all": _Split("Imagelist.txt", "AllLabels", ".txt"),
}


def is_nus_wide_lists(path: Path) -> bool:
    """Whether a path is a folder with one of NUS-WIDE's lists of images and its labels."""
    return path.is_dir() and any(_image_list(path, split) and _label_folder(path, split) for split in _SPLITS.values())


def read_nus_wide_lists(
    path: Path,
    classes: Sequence[str] | None = None,
    *,
    split: str = "all",
    images: str | Path | None = None,
    unannotated: Literal["keep", "drop"] = "drop",
) -> LabelTable:
    """Read NUS-WIDE's original lists.

    Args:
        path: The folder with ImageList and Groundtruth.
        classes: The order of classes; by default that of the label files, which is alphabetical.
        split: "train", "test" or "all".
        images: The folder of the images; by default Flickr/ or images/ below `path`.
        unannotated: What to do with images that have none of the concepts; papers drop them.
    """
    check_option(path, "split", split, _SPLITS)
    check_option(path, "unannotated", unannotated, ("keep", "drop"))
    files = _SPLITS[split]
    listed, folder = _image_list(path, files), _label_folder(path, files)
    if listed is None or folder is None:
        missing = files.images if listed is None else f"{files.labels}/Labels_*{files.ending}"
        raise DataError(f"{path}: the split {split!r} needs {missing}, which is missing. Unpack it, or take another.")
    names = _read_images(listed)
    concepts = _concepts(folder, files)
    columns = [_read_column(file, len(names), listed) for file in concepts.values()]
    positive = csr_array(np.stack(columns, axis=1))
    usual = [path / name for name in _IMAGE_FOLDERS]
    root = Path(images) if images is not None else find_image_folder(path, usual, names)
    table = LabelTable(root, names, tuple(concepts), positive, source=f"{path} ({split})", classes_given=True)
    if unannotated == "drop":
        table = table.select(np.diff(table.positive.indptr) > 0)
    return table if classes is None else table.with_classes(classes)


def _image_list(path: Path, split: _Split) -> Path | None:
    files = (path / name / split.images for name in _LIST_FOLDERS)
    return next((file for file in files if file.is_file()), None)


def _label_folder(path: Path, split: _Split) -> Path | None:
    folders = (path / f"{name}{split.labels}" for name in _LABEL_FOLDERS)
    return next((folder for folder in folders if next(folder.glob(f"Labels_*{split.ending}"), None)), None)


def _concepts(folder: Path, split: _Split) -> dict[str, Path]:
    """Map each concept to its label file: `Labels_airport_Train.txt` is that of airport."""
    files = sorted(folder.glob(f"Labels_*{split.ending}"))
    if len(files) > MAX_CONCEPTS:
        raise DataError(f"{folder}: {len(files)} label files, more than {MAX_CONCEPTS}. Is this NUS-WIDE?")
    return {file.name.removeprefix("Labels_").removesuffix(split.ending): file for file in files}


def _read_images(file: Path) -> list[str]:
    names: list[str] = []
    for number, line in text_lines(file):
        if name := line.strip():
            names.append(checked_path(name.replace("\\", "/"), f"{file}, line {number}"))
        if len(names) > MAX_IMAGES:
            raise DataError(f"{file}: more than {MAX_IMAGES} images. Is this a list of NUS-WIDE?")
    if not names:
        raise DataError(f"{file}: no images. Expected one path per line.")
    check_distinct(names, str(file))
    return names


def _read_column(file: Path, count: int, listed: Path) -> NDArray[np.bool_]:
    """Read the labels of one concept, (images,)."""
    marks: list[bool] = []
    for number, line in text_lines(file):
        mark = line.strip()
        if mark not in ("0", "1", ""):
            raise DataError(f"{file}, line {number}: expected 0 or 1, found {shown(mark)}.")
        if mark:
            marks.append(mark == "1")
        if len(marks) > count:
            break
    if len(marks) != count:
        found = f"more than {count}" if len(marks) > count else str(len(marks))
        raise DataError(f"{file}: {found} labels for the {count} images of {listed}. Unpack both again.")
    return np.array(marks, dtype=np.bool_)


NUS_WIDE_LISTS = Format(
    "NUS-WIDE's lists",
    "the folder of NUS-WIDE's original lists",
    is_nus_wide_lists,
    read_nus_wide_lists,
    ("split", "images", "unannotated"),
    suggested=False,
)
