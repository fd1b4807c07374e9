"""COCO instances files: one JSON file with images, annotated objects and categories."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.sparse import coo_array

from tagloom.data.formats.format import Format
from tagloom.data.options import check_option
from tagloom.data.parsing.image_paths import check_distinct, checked_path, find_image_folder
from tagloom.data.regular_file import read_regular
from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.wording import first_line, shown

MAX_JSON_BYTES = 4 * 2**30


def is_coco(path: Path) -> bool:
    """Whether a path is a JSON file."""
    return path.is_file() and path.suffix.lower() == ".json"


def read_coco(
    path: Path,
    classes: Sequence[str] | None = None,
    *,
    images: str | Path | None = None,
    unannotated: Literal["keep", "drop"] = "drop",
) -> LabelTable:
    """Read an instances file of 2014 or 2017. An image has the label of every object annotated in it, crowds included.

    Args:
        path: The JSON file.
        classes: The order of classes; by default that of the category ids.
        images: The image folder; by default the first of the usual folders near the file that has the images.
        unannotated: What to do with images without any annotation. Papers drop them, which leaves the 82,081 and
            40,137 images of COCO 2014, and so does Tagloom by default.
    """
    check_option(path, "unannotated", unannotated, ("keep", "drop"))
    content = _load(path)
    categories = sorted(_entries(path, content, "categories", id=int, name=str), key=lambda entry: entry["id"])
    listed = list(_entries(path, content, "images", id=int, file_name=str))
    column_of = _indices(path, "categories", categories)
    row_of = _indices(path, "images", listed)

    rows, columns = [], []
    for number, entry in enumerate(_entries(path, content, "annotations", image_id=int, category_id=int)):
        if entry["image_id"] not in row_of or entry["category_id"] not in column_of:
            raise DataError(
                f"{path}, annotations[{number}]: image {shown(entry['image_id'])} or category "
                f"{shown(entry['category_id'])} is not listed in the file. Add it, or remove the annotation."
            )
        rows.append(row_of[entry["image_id"]])
        columns.append(column_of[entry["category_id"]])
    del content

    names = [checked_path(entry["file_name"], f"{path}, image {shown(entry['id'])}") for entry in listed]
    check_distinct(names, str(path))
    shape = (len(names), len(categories))
    pairs = coo_array((np.ones(len(rows), dtype=np.bool_), (rows, columns)), shape=shape).tocsr()
    root = find_image_folder(path, _usual_folders(path), names) if images is None else Path(images)
    table = LabelTable(
        root, names, tuple(entry["name"] for entry in categories), pairs, source=str(path), classes_given=True
    )
    if unannotated == "drop":
        table = table.select(np.diff(table.positive.indptr) > 0)
    if not len(table):
        raise DataError(
            f"{path}: no image is left. To read images without annotations, set unannotated='keep' "
            "(--data-option unannotated=keep)."
        )
    return table if classes is None else table.with_classes(classes)


def _load(path: Path) -> dict[str, Any]:
    data = read_regular(path, MAX_JSON_BYTES)
    if len(data) > MAX_JSON_BYTES:
        raise DataError(f"{path}: larger than {MAX_JSON_BYTES} bytes. Split it, or write the labels as a CSV file.")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({first_line(error)}). Expected a COCO instances file.") from error
    if not isinstance(content, dict):
        raise DataError(
            f"{path}: expected a JSON object, as in a COCO instances file, found a {type(content).__name__}."
        )
    return content


def _entries(path: Path, content: dict[str, Any], section: str, **fields: type) -> Iterator[dict[str, Any]]:
    """Yield the entries of one section, each checked to have these fields of these types."""
    entries = content.get(section)
    if not isinstance(entries, list):
        raise DataError(f"{path}: no list called {section!r}. A COCO file has images, annotations and categories.")
    for number, entry in enumerate(entries):
        for field, kind in fields.items():
            if not isinstance(entry, dict) or not isinstance(entry.get(field), kind):
                raise DataError(
                    f"{path}, {section}[{number}]: {field!r} is missing or not of type {kind.__name__}. Correct it."
                )
        yield entry


def _indices(path: Path, section: str, entries: Sequence[dict[str, Any]]) -> dict[int, int]:
    """Map the id of each entry to its index."""
    indices = {entry["id"]: index for index, entry in enumerate(entries)}
    if len(indices) != len(entries):
        raise DataError(f"{path}: two {section} have the same id. Each needs its own.")
    return indices


def _usual_folders(path: Path) -> list[Path]:
    """List the folders in which the images of an instances file usually are, most likely first."""
    split = path.stem.rpartition("_")[2]  # instances_val2017 -> val2017
    above = path.parent.parent
    near = [path.parent, path.parent / split, above / split, above / "images" / split]
    return [*near, path.parent / "images", above / "images", above]


COCO = Format("COCO", "a COCO instances .json file", is_coco, read_coco, ("images", "unannotated"))
