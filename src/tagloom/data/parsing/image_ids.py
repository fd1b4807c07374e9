"""Tables that name images by an id, without suffix or folder: `tt0086425` for `Images/tt0086425.jpg`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tagloom.data.images import IMAGE_SUFFIXES
from tagloom.data.regular_file import is_regular
from tagloom.wording import shown

_FOLDERS = frozenset(
    ("data", "image", "images", "img", "imgs", "jpeg", "jpegs", "jpg", "photos", "pictures", "png", "train")
)
_PROBES = 64  # more than one, because some images of a public data set are no longer available


class Located(NamedTuple):
    """The folder of the images, their paths in it, and a note if that is not what the table says."""

    root: Path
    images: list[str]
    note: str | None = None


def locate_images(table: Path, root: Path, images: list[str], *, chosen: bool) -> Located:
    """Find the images of a table: where it says, or in a folder next to it with a usual name, or by their ids.

    Args:
        table: The table.
        root: The folder that images should be in.
        images: What the table calls them.
        chosen: Whether the user chose that folder; then no other is looked into.
    """
    sample = images[:_PROBES]
    if any(is_regular(root / name) for name in sample):
        return Located(root, images)
    folders = [] if chosen else _likely_folders(root, table.stem)
    for folder in folders:
        if any(is_regular(folder / name) for name in sample):
            return Located(folder, images, f"images are in {folder}: the first ones are there, and not in {root}")
    if any(Path(name).suffix.lower() in IMAGE_SUFFIXES for name in sample):
        return Located(root, images)
    for folder in (root, *folders):
        files = _by_stem(folder)
        if any(name in files for name in sample):
            found = [files.get(name, name) for name in images]
            example = f"{shown(sample[0])} is {files.get(sample[0], sample[0])}"
            return Located(folder, found, f"images are named without suffix, and are files in {folder}: {example}")
    return Located(root, images, "images are named without suffix, and no folder next to the table has such files")


def _likely_folders(root: Path, stem: str) -> list[Path]:
    try:
        inner = sorted(entry.path for entry in os.scandir(root) if entry.is_dir())
    except OSError:
        return []
    wanted = _FOLDERS | {stem.lower(), f"{stem.lower()}_images", f"{stem.lower()}-images"}
    # A folder named like the table is likelier than any other.
    found = [Path(path) for path in inner if Path(path).name.lower() in wanted]
    return sorted(found, key=lambda path: not path.name.lower().startswith(stem.lower()))


def _by_stem(folder: Path) -> dict[str, str]:
    """Map the names of image files without their suffix to the names with it."""
    try:
        names: Sequence[str] = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except OSError:
        return {}
    files: dict[str, str] = {}
    for name in names:
        stem, suffix = os.path.splitext(name)  # noqa: PTH122  a Path for each of a million files takes seconds
        if suffix.lower() in IMAGE_SUFFIXES:
            files.setdefault(stem, name)
    return files
