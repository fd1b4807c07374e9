"""Image paths as a table gives them: checked, all different, and found on disk."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tagloom.data.regular_file import is_regular
from tagloom.errors import DataError
from tagloom.wording import shown

MAX_PATH = 4096
FORMULA_MARKS = ("=", "+", "-", "@", "\t", "\r")
"""A field that begins with one of these may be a formula to a spreadsheet."""
# A byte of a file name that is not UTF-8 is to Python a surrogate from U+DC80 to U+DCFF. Text files hold no surrogates.
_ESCAPE = re.compile(r"\\u(dc[89a-f][0-9a-f]|005c)")
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
    if "\\u" in path:
        path = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), path)
    if "\0" in path or len(path) > MAX_PATH:
        raise DataError(
            f"{where}: {shown(path)} is not a path (a zero byte, or over {MAX_PATH} characters). Correct it."
        )
    return path


def path_field(path: str) -> str:
    r"""Write an image path as a field of a text file that `checked_path` reads back, and no spreadsheet as a formula.

    A byte that is not UTF-8 becomes its escape `\udc80` to `\udcff`. The backslash of a name that has such an escape in
    plain letters becomes `\u005c`.

    >>> path_field("caf\udce9.jpg"), path_field("=1+1.jpg"), path_field("photos/a.jpg")
    ('caf\\udce9.jpg', './=1+1.jpg', 'photos/a.jpg')
    """
    escaped = escaped_path(path)
    return f"./{escaped}" if escaped.startswith(FORMULA_MARKS) else escaped


def escaped_path(path: str) -> str:
    r"""Write an image path as UTF-8 text that `checked_path` reads back; see `path_field`."""
    plain = _ESCAPE.sub(r"\\u005cu\1", path)
    return plain.encode("utf-8", "backslashreplace").decode("utf-8")


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
