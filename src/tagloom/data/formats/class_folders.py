"""One folder per class: each image has one label, the name of its folder."""

from collections.abc import Sequence
from pathlib import Path

from tagloom.data.formats.format import Format
from tagloom.data.images import IMAGE_SUFFIXES
from tagloom.data.parsing.pairs import PairRows
from tagloom.data.table import LabelTable
from tagloom.errors import DataError


def is_class_folders(path: Path) -> bool:
    """Whether a path is a folder whose folders contain images, or folders of images."""
    return path.is_dir() and any(_images(inner) or any(map(_images, _folders(inner))) for inner in _folders(path))


def read_class_folders(path: Path, classes: Sequence[str] | None = None) -> LabelTable:
    """Read a folder of class folders. Names that begin with a dot and files that are not images are skipped.

    Args:
        path: The folder.
        classes: The order of classes; by default the names of the folders, sorted.
    """
    folders = _folders(path)
    for folder in folders:
        if deeper := next((inner for inner in _folders(folder) if _images(inner)), None):
            raise DataError(
                f"{deeper}: images are two folders below {path}, so it is not clear which folder names the class. Give "
                f"the folder right above the class folders, such as {folder}."
            )
    images, rows = [], PairRows()
    for column, folder in enumerate(folders):
        for name in _images(folder):
            images.append(f"{folder.name}/{name}")
            rows.append([column])
    names = tuple(folder.name for folder in folders)
    table = LabelTable(path, images, names, rows.to_matrix(len(names)), task="single", source=str(path))
    return table if classes is None else table.with_classes(classes)


def _folders(path: Path) -> list[Path]:
    return sorted(inner for inner in path.iterdir() if inner.is_dir() and not inner.name.startswith("."))


def _images(path: Path) -> list[str]:
    return sorted(
        inner.name
        for inner in path.iterdir()
        if inner.suffix.lower() in IMAGE_SUFFIXES and not inner.name.startswith(".") and inner.is_file()
    )


CLASS_FOLDERS = Format(
    "class folders",
    "a folder with one folder of images per class",
    is_class_folders,
    read_class_folders,
    suggested=False,
)
