r"""NUS-WIDE's own files: lists of images, and for each concept a list of 0 and 1 that runs along them.

    ImageList/TrainImagelist.txt                            actor\0001_2124494179.jpg
    Groundtruth/TrainTestLabels/Labels_airport_Train.txt    0
    ImageList/Imagelist.txt
    Groundtruth/AllLabels/Labels_airport.txt

The images lie in Flickr/. Of its 161,789 and 107,859 images many have none of the 81 concepts; papers leave them out,
and train and score on 125,449 and 83,898.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tagloom.data.formats.delimited import text_lines
from tagloom.data.formats.sheet import checked_path
from tagloom.data.table import LabelTable
from tagloom.errors import DataError

MAX_IMAGES = 5_000_000
MAX_CONCEPTS = 10_000
# The archives unpack into a folder of their own name, sometimes twice.
_LIST_PLACES = ("ImageList", "ImageList/ImageList", ".")
_LABEL_PLACES = ("Groundtruth/", "Groundtruth/Groundtruth/", "")
_IMAGE_PLACES = ("Flickr", "Flickr/Flickr", "images", ".")


class _Part(NamedTuple):
    """Where a part of the images is listed: the list, the folder of labels, and how the names of its files end."""

    images: str
    labels: str
    ending: str


_PARTS = {
    "train": _Part("TrainImagelist.txt", "TrainTestLabels", "_Train.txt"),
    "test": _Part("TestImagelist.txt", "TrainTestLabels", "_Test.txt"),
    "all": _Part("Imagelist.txt", "AllLabels", ".txt"),
}


def is_nus_wide_lists(path: Path) -> bool:
    """Whether a path is a folder that holds one of NUS-WIDE's lists of images and the labels that belong to it."""
    return path.is_dir() and any(_image_list(path, part) and _label_folder(path, part) for part in _PARTS.values())


def read_nus_wide_lists(
    path: Path,
    classes: Sequence[str] | None = None,
    *,
    split: str = "all",
    images: str | Path | None = None,
    unannotated: Literal["keep", "drop"] = "drop",
) -> LabelTable:
    """Read NUS-WIDE's own lists.

    Args:
        path: The folder with ImageList and Groundtruth.
        classes: The order of classes; without it that of the names of the label files, which is alphabetical.
        split: "train", "test" or "all".
        images: The folder of the images; without it, Flickr/ or images/ below `path`.
        unannotated: What to do with images that have none of the concepts; papers leave them out.
    """
    if split not in _PARTS:
        raise DataError(f"{path}: split is 'train', 'test' or 'all', found {split!r}")
    if unannotated not in ("keep", "drop"):
        raise DataError(f"{path}: unannotated is 'keep' or 'drop', found {unannotated!r}")
    part = _PARTS[split]
    listed, folder = _image_list(path, part), _label_folder(path, part)
    if listed is None or folder is None:
        missing = part.images if listed is None else f"{part.labels}/Labels_*{part.ending}"
        raise DataError(f"{path}: the part {split!r} needs {missing}, which is not there. Unpack it, or take another.")
    names = _read_images(listed)
    files = _concepts(folder, part)
    columns = [_read_column(file, len(names), listed) for file in files.values()]
    positive = csr_array(np.stack(columns, axis=1))
    root = Path(images) if images is not None else _image_folder(path, names)
    table = LabelTable(root, names, tuple(files), positive, source=f"{path} ({split})", classes_given=True)
    if unannotated == "drop":
        table = table.select(np.diff(table.positive.indptr) > 0)
    return table if classes is None else table.with_classes(classes)


def _image_list(path: Path, part: _Part) -> Path | None:
    files = (path / place / part.images for place in _LIST_PLACES)
    return next((file for file in files if file.is_file()), None)


def _label_folder(path: Path, part: _Part) -> Path | None:
    folders = (path / f"{place}{part.labels}" for place in _LABEL_PLACES)
    return next((folder for folder in folders if next(folder.glob(f"Labels_*{part.ending}"), None)), None)


def _concepts(folder: Path, part: _Part) -> dict[str, Path]:
    """The label files of a part by concept: `Labels_airport_Train.txt` is of airport."""
    files = sorted(folder.glob(f"Labels_*{part.ending}"))
    if len(files) > MAX_CONCEPTS:
        raise DataError(f"{folder}: {len(files)} files of labels are more than {MAX_CONCEPTS}. Is this NUS-WIDE?")
    return {file.name.removeprefix("Labels_").removesuffix(part.ending): file for file in files}


def _read_images(file: Path) -> list[str]:
    names: list[str] = []
    for number, line in text_lines(file):
        if name := line.strip():
            names.append(checked_path(name.replace("\\", "/"), f"{file}, line {number}"))
        if len(names) > MAX_IMAGES:
            raise DataError(f"{file}: more than {MAX_IMAGES} images. Is this a list of NUS-WIDE?")
    if not names:
        raise DataError(f"{file}: no images. One path a line is expected.")
    if len(set(names)) != len(names):
        raise DataError(f"{file}: {Counter(names).most_common(1)[0][0]!r} is listed twice. Remove one.")
    return names


def _read_column(file: Path, count: int, listed: Path) -> NDArray[np.bool_]:
    """The 0 and 1 of one concept, (images,)."""
    marks: list[bool] = []
    for number, line in text_lines(file):
        mark = line.strip()
        if mark not in ("0", "1", ""):
            raise DataError(f"{file}, line {number}: found {mark[:40]!r} where 0 or 1 is expected.")
        if mark:
            marks.append(mark == "1")
        if len(marks) > count:
            break
    if len(marks) != count:
        found = f"more than {count}" if len(marks) > count else str(len(marks))
        raise DataError(f"{file}: {found} labels for the {count} images of {listed}. Unpack both again.")
    return np.array(marks, dtype=np.bool_)


def _image_folder(path: Path, names: Sequence[str]) -> Path:
    for place in _IMAGE_PLACES:
        if any((path / place / name).is_file() for name in names[:64]):  # a few are no longer to be had
            return path / place
    raise DataError(
        f"{path}: images such as {names[0]} lie in none of {', '.join(_IMAGE_PLACES)}. Say where with images=FOLDER "
        "(--data-option images=FOLDER)."
    )
