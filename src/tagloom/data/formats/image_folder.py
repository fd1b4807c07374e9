"""Image folders, as Hugging Face datasets publish them: images and a metadata file with their labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from tagloom.data.formats.delimited import read_delimited
from tagloom.data.formats.format import Format
from tagloom.data.formats.jsonlines import is_json_lines, read_json_lines
from tagloom.data.parsing.sheet import SHEET_OPTIONS, SheetOptions
from tagloom.data.table import LabelTable
from tagloom.errors import DataError

METADATA = ("metadata.jsonl", "metadata.csv")


def is_image_folder(path: Path) -> bool:
    """Whether a path is a folder with a metadata file."""
    return any((path / name).is_file() for name in METADATA)


def read_image_folder(path: Path, classes: Sequence[str] | None = None, **options: Unpack[SheetOptions]) -> LabelTable:
    """Read the metadata file of an image folder."""
    found = [path / name for name in METADATA if (path / name).is_file()]
    if len(found) > 1:
        raise DataError(f"{path}: found both {' and '.join(METADATA)}. Give the one that you mean.")
    return (read_json_lines if is_json_lines(found[0]) else read_delimited)(found[0], classes, **options)


IMAGE_FOLDER = Format(
    "image folders",
    f"a folder with {' or '.join(METADATA)}",
    is_image_folder,
    read_image_folder,
    SHEET_OPTIONS,
    suggested=False,
)
