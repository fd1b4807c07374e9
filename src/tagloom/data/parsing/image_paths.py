"""Image paths as a table gives them: checked, all different, and found on disk."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tagloom.data.regular_file import is_regular
from tagloom.errors import DataError
from tagloom.wording import shown

MAX_PATH = 4096
_PROBES = 64  # more than one, because some images of a public data set are no longer available


def checked_path(value: object, where: str) -> str:
    """Return an image path as text that a file system accepts; `where` begins the message if it is not one."""
    if value is None or value == "":
        raise DataError(f"{where}: no image path, found {shown(value)}. Fill it in, or remove the row.")
    if not isinstance(value, str | int):
        raise DataError(
            f"{where}: no image path, found {shown(value)}. If the table holds the pictures themselves, save them as "
            "files and put their paths into it."
        )
    path = str(value)
    if "\0" in path or len(path) > MAX_PATH:
        raise DataError(
            f"{where}: {shown(path)} is not a path (a zero byte, or over {MAX_PATH} characters). Correct it."
        )
    return path


def check_distinct(names: Sequence[str], where: str) -> None:
    """Refuse a list of images in which one is listed twice."""
    if len(set(names)) != len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise DataError(f"{where}: {shown(twice)} is listed twice. Keep one entry, with all labels of the image.")


def find_image_folder(table: Path, candidates: Sequence[Path], images: Sequence[str]) -> Path:
    """Return the first folder that holds one of the first images, for formats that do not say where images are.

    Args:
        table: The table, for the message.
        candidates: The folders to look in, most likely first.
        images: Image paths relative to the folder.
    """
    if not images:
        raise DataError(f"{table}: lists no images. Add them.")
    for folder in candidates:
        if any(is_regular(folder / image) for image in images[:_PROBES]):
            return folder
    raise DataError(
        f"{table}: images such as {shown(images[0])} are in none of {', '.join(map(str, candidates))}. Say where "
        "they are with images=FOLDER (--data-option images=FOLDER)."
    )


def leaves_folder(image: str) -> bool:
    """Whether a relative path leads out of the folder that it is relative to, by way of `..`.

    >>> leaves_folder("../../etc/passwd"), leaves_folder("train/../val/1.jpg")
    (True, False)
    """
    return Path(os.path.normpath(image)).parts[:1] == ("..",)
