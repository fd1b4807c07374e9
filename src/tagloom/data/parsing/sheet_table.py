"""From a sheet to a label table.

A sheet has one of two shapes. Either one column holds all labels of an image, joined as `fields` describes
(`label_column`), or every class has a column of its own (`class_columns`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from tagloom.data.parsing.class_columns import read_class_columns
from tagloom.data.parsing.classes import GivenClasses, given_classes
from tagloom.data.parsing.fields import SEPARATORS
from tagloom.data.parsing.label_column import read_label_column
from tagloom.data.parsing.sheet import Sheet, SheetOptions
from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.wording import listed, shown

IMAGE_COLUMNS = (
    *("image", "file_name", "filename", "image_path", "image_file", "image_name", "path", "file_path", "filepath"),
    *("file", "images", "img", "img_path", "image_id", "photo", "picture"),
)
LABEL_COLUMNS = (
    *("labels", "label", "tags", "tag", "classes", "class", "categories", "category"),
    *("label_names", "label_name", "class_names", "class_name", "keywords"),
)


def read_sheet(sheet: Sheet, classes: Sequence[str] | None, **options: Unpack[SheetOptions]) -> LabelTable:
    """Read the label table that a sheet holds.

    Args:
        sheet: The sheet.
        classes: The order of classes; by default that of `classes.txt` next to the file, else sorted.
        **options: See `SheetOptions`.
    """
    given = given_classes(sheet.path, classes)
    asked = options.get("separator")
    separator = next((known for known in SEPARATORS if known == asked), None)
    if asked is not None and separator is None:
        known = ", ".join(map(repr, SEPARATORS))
        raise DataError(f"{sheet.path}: labels cannot be separated by {shown(asked)}. Known separators: {known}")
    image_column = _image_column(sheet, options.get("image_column"))
    images = options.get("images")
    root = sheet.path.parent if images is None else Path(images)
    label_column = _label_column(sheet, options.get("label_column"), image_column, given)
    if label_column is None:
        return read_class_columns(sheet, root, image_column, given)
    return read_label_column(sheet, root, image_column, label_column, given, separator)


def _image_column(sheet: Sheet, chosen: str | None) -> int:
    if chosen is not None:
        return _named_column(sheet, chosen)
    plain = [_plain(name) for name in sheet.header]
    return next((plain.index(name) for name in IMAGE_COLUMNS if name in plain), 0)


def _label_column(sheet: Sheet, chosen: str | None, image_column: int, given: GivenClasses | None) -> int | None:
    """Find the column of labels; None if every class has a column of its own."""
    if chosen is not None:
        return _named_column(sheet, chosen)
    plain = [_plain(name) if column != image_column else "" for column, name in enumerate(sheet.header)]
    found = next((plain.index(name) for name in LABEL_COLUMNS if name in plain), None)
    if found is None and len(sheet.header) < 2:
        raise DataError(
            f"{sheet.path}: found only the column {shown(sheet.header[0])}. Besides the images, a table needs a column "
            "'labels', or one column per class with 1, 0, -1 or nothing."
        )
    # A class may be called "tag": if every known class has a column, the columns are classes.
    return None if given is not None and set(given.names) <= set(sheet.header) else found


def _named_column(sheet: Sheet, name: str) -> int:
    if name not in sheet.header:
        raise DataError(f"{sheet.path}: no column {shown(name)}. Columns: {listed(map(shown, sheet.header))}")
    return sheet.header.index(name)


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")
