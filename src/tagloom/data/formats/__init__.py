"""Reading label tables. Each format has a module that ends with a `Format`; `FORMATS` is the closed table of them.

To add a format, write its module and put its `Format` into `FORMATS`.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tagloom.data.formats.class_folders import CLASS_FOLDERS
from tagloom.data.formats.coco import COCO
from tagloom.data.formats.delimited import DELIMITED
from tagloom.data.formats.format import Format
from tagloom.data.formats.image_folder import IMAGE_FOLDER
from tagloom.data.formats.jsonlines import JSON_LINES
from tagloom.data.formats.nuswide import NUS_WIDE
from tagloom.data.formats.nuswide_lists import NUS_WIDE_LISTS
from tagloom.data.formats.openimages import OPEN_IMAGES
from tagloom.data.formats.parquet import PACKED, PARQUET, read_packed
from tagloom.data.formats.photo_library import PHOTO_LIBRARY
from tagloom.data.formats.voc import VOC
from tagloom.data.formats.webdataset import WEBDATASET, is_webdataset
from tagloom.data.packed.places import is_address
from tagloom.data.parsing.class_tree import find_class_tree
from tagloom.data.table import LabelTable, not_a_class
from tagloom.data.tree_labels import with_paths, with_tree
from tagloom.errors import DataError, unknown_name
from tagloom.wording import first_line, shown

__all__ = ["FORMATS", "Format", "load_table"]

# The first format that recognises a path reads it, so special ones come before general ones: a VOC split is a .txt
# file, NUS-WIDE and Open Images are .csv files, folders of VOC and NUS-WIDE contain folders of images, and so do most
# photo libraries.
FORMATS: tuple[Format, ...] = (
    VOC,
    NUS_WIDE,
    OPEN_IMAGES,
    DELIMITED,
    PARQUET,
    JSON_LINES,
    COCO,
    NUS_WIDE_LISTS,
    IMAGE_FOLDER,
    PHOTO_LIBRARY,
    CLASS_FOLDERS,
    PACKED,
    WEBDATASET,
)
_KNOWN = f"Tagloom reads {'; '.join(entry.given for entry in FORMATS)}."


def load_table(path: str | os.PathLike[str], *, classes: Sequence[str] | None = None, **options: Any) -> LabelTable:
    """Read a label table of any known format.

    Args:
        path: The file or folder, or the address of packed data that fsspec knows, such as `s3://bucket/shards`.
            `FILE#NAME` means FILE with the option split=NAME, so that one command can name two splits of one file.
        classes: The order of classes wanted. A label that is not among them is an error.
        **options: How to read the format: `images`, `image_column`, `label_column` and `separator` for CSV, Parquet,
            JSON lines and image folders; `images` and `unannotated` for COCO; `split` and `images` for NUS-WIDE, and
            `unannotated` for its original lists; `images`, `machine` and `min_confidence` for Open Images; `split` and
            `difficult` for Pascal VOC; `split` for folders of shards; `absent`, `min_count`, `include` and `exclude`
            for photos with keywords. The format's reader documents them.

    Raises:
        DataError: Says what was found, where, and what to do.
    """
    if "\0" in str(path):
        raise DataError(f"{str(path)!r}: a path cannot contain a zero byte.")
    if classes is not None:
        _check_classes(classes)
    if is_address(str(path)):
        return _at_address(str(path), classes, options)
    given = Path(path)
    try:
        before, mark, split = str(given).rpartition("#")
        if mark and before and not given.exists() and Path(before).exists():
            given, options = Path(before), {**options, "split": split}
        found = next((entry for entry in FORMATS if entry.recognises(given)), None)
        if found is None and not given.exists():
            raise DataError(f"{given}: there is no such file or folder. {_KNOWN}")
        if found is None:
            raise DataError(f"{given}: found no labels here.{_suggestion(given)} {_KNOWN}")
        _check_options(given, found, options)
        return _in_a_tree(found.read(given, classes, **options), given)
    except OSError as error:
        raise DataError(
            f"{given}: cannot be read ({first_line(error)}). Check the path and its permissions."
        ) from error


def is_there(path: str) -> bool:
    """Whether `load_table` would find something at a path; an address is not asked."""
    place = Path(path)
    before = path.rpartition("#")[0]
    return is_address(path) or place.exists() or is_webdataset(place) or bool(before and Path(before).exists())


def _at_address(address: str, classes: Sequence[str] | None, options: dict[str, Any]) -> LabelTable:
    """Read a table that is not on this disk. Only Parquet can be read there without fetching all of it."""
    place, mark, split = address.partition("#")
    _check_options(address, PACKED, {**options, **({"split": split} if mark else {})})
    try:
        return with_paths(read_packed(place, classes, **options, **({"split": split} if mark else {})))
    except OSError as error:
        raise DataError(f"{address}: cannot be read ({first_line(error)}). Check the address.") from error


def _check_options(given: object, found: Format, options: dict[str, Any]) -> None:
    for name in options:
        if name not in found.options:
            raise DataError(f"{given}: {unknown_name(f'option for {found.name}', name, found.options)}")


def _in_a_tree(table: LabelTable, path: Path) -> LabelTable:
    """Complete a table by the label tree that `classes.yaml` or the names of its classes give, if there is one."""
    tree = find_class_tree(path)
    if tree is None:
        return with_paths(table)
    if not table.classes_given and (
        foreign := next((name for name in table.classes if name not in tree.classes), None)
    ):
        raise DataError(f"{table.source}: {not_a_class(foreign, tree.classes)} Correct it, or add it to {tree.path}.")
    complete = with_tree(table, tree.parents, classes=None if table.classes_given else tree.classes)
    levels = int(complete.tree.levels.max())
    note = f"{tree.path.name} puts the {len(complete.classes):,} classes into a tree of {levels} levels"
    return replace(complete, classes_given=True, understood=(*complete.understood, note))


def _check_classes(classes: Sequence[str]) -> None:
    if isinstance(classes, str):
        raise DataError(f"classes must be a list of names, found the text {shown(classes)}")
    for name, times in Counter(classes).items():
        if not isinstance(name, str) or not name or times > 1:
            found = f"{shown(name)} {times} times" if times > 1 else shown(name)
            raise DataError(f"classes must be different names, found {found}")


def _suggestion(path: Path) -> str:
    """Name the tables in a folder, for users who passed the folder instead."""
    files = [
        str(file)
        for file in sorted(path.glob("*"))
        if any(entry.recognises(file) for entry in FORMATS if entry.suggested)
    ]
    return f" Did you mean {' or '.join(files[:4])}?" if files else ""
