"""From a sheet to a label table.

A sheet has one of two shapes. Either one column holds all labels of an image, joined as `fields` describes
(`label_column`), or every class has a column of its own (`class_columns`).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from tagloom.data.parsing.class_columns import read_class_columns
from tagloom.data.parsing.class_names import with_class_names
from tagloom.data.parsing.classes import GivenClasses, given_classes
from tagloom.data.parsing.fields import SEPARATORS
from tagloom.data.parsing.image_ids import Located, locate_images
from tagloom.data.parsing.label_column import read_label_column
from tagloom.data.parsing.list_columns import find_list_column
from tagloom.data.parsing.sheet import Sheet, SheetOptions
from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.wording import listed, shown

IMAGE_COLUMNS = (
    *("image", "file_name", "filename", "image_path", "image_file", "image_name", "path", "file_path", "filepath"),
    *("file", "images", "img", "img_path", "image_id", "photo", "picture", "img_id", "photo_id", "file_id", "id"),
)
LABEL_COLUMNS = (
    *("labels", "label", "tags", "tag", "classes", "class", "categories", "category"),
    *("label_names", "label_name", "class_names", "class_name", "keywords", "attributes", "genres", "genre"),
    *("attribute_ids", "label_ids", "class_ids", "category_ids", "tag_ids"),
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
    label_column, notes = _label_column(sheet, options.get("label_column"), image_column, given)
    if label_column is None:
        table = read_class_columns(sheet, root, image_column, given)
    else:
        table = read_label_column(sheet, root, image_column, label_column, given, separator)
    located = Located(root, table.images)
    if sheet.on_disk:
        located = locate_images(sheet.path, root, table.images, chosen=images is not None)
    notes = [f"images are in the column {shown(sheet.header[image_column])}", *notes, *table.understood]
    table = replace(
        table, root=located.root, images=located.images, understood=(*notes, *([located.note] if located.note else []))
    )
    return with_class_names(table, sheet.path, options.get("names"))


def _image_column(sheet: Sheet, chosen: str | None) -> int:
    if chosen is not None:
        return _named_column(sheet, chosen)
    plain = [_plain(name) for name in sheet.header]
    return next((plain.index(name) for name in IMAGE_COLUMNS if name in plain), 0)


def _label_column(
    sheet: Sheet, chosen: str | None, image_column: int, given: GivenClasses | None
) -> tuple[int | None, list[str]]:
    """Find the column of labels, None if every class has a column of its own; and say how it was found."""
    if chosen is not None:
        return _named_column(sheet, chosen), [f"labels are in the column {shown(chosen)}, as you chose"]
    if len(sheet.header) < 2:
        raise DataError(
            f"{sheet.path}: found only the column {shown(sheet.header[0])}. Besides the images, a table needs a column "
            "'labels', or one column per class with 1, 0, -1 or nothing."
        )
    every_column = ["every other column is a class: 1 is positive, 0 negative, -1 or nothing unknown"]
    # A class may be called "tag": if every known class has a column, the columns are classes.
    if given is not None and set(given.names) <= set(sheet.header):
        return None, every_column
    plain = [_plain(name) if column != image_column else "" for column, name in enumerate(sheet.header)]
    found = next((plain.index(name) for name in LABEL_COLUMNS if name in plain), None)
    if found is not None:
        return found, [f"labels are in the column {shown(sheet.header[found])}, by its name"]
    lists = find_list_column(sheet, image_column)
    return (None, every_column) if lists is None else (lists.column, [lists.note])


def _named_column(sheet: Sheet, name: str) -> int:
    if name not in sheet.header:
        raise DataError(f"{sheet.path}: no column {shown(name)}. Columns: {listed(map(shown, sheet.header))}")
    return sheet.header.index(name)


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")
