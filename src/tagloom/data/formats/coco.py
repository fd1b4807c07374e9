"""COCO's instances files: one JSON with images, annotated objects and categories."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.sparse import coo_array

from tagloom.data.formats.sheet import checked_path
from tagloom.data.table import LabelTable
from tagloom.errors import DataError

MAX_JSON_BYTES = 4 * 2**30
_PROBES = 16


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
    """Read an instances file, of 2014 or 2017: an image has the label of every object annotated in it, crowds included.

    Args:
        path: The JSON file.
        classes: The order of classes; without it, that of the category ids.
        images: The image folder; without it, the first of the usual places beside the file that has the images.
        unannotated: What to do with images in which nothing is annotated. The papers leave them out, which gives the
            82,081 and 40,137 images of COCO 2014, and so do we unless told to keep them.
    """
    if unannotated not in ("keep", "drop"):
        raise DataError(f"{path}: unannotated is 'keep' or 'drop', found {unannotated!r}")
    content = _load(path)
    categories = sorted(_entries(path, content, "categories", id=int, name=str), key=lambda entry: entry["id"])
    pictures = list(_entries(path, content, "images", id=int, file_name=str))
    column_of = _positions(path, "categories", categories)
    row_of = _positions(path, "images", pictures)

    rows, columns = [], []
    for number, entry in enumerate(_entries(path, content, "annotations", image_id=int, category_id=int)):
        if entry["image_id"] not in row_of or entry["category_id"] not in column_of:
            raise DataError(
                f"{path}, annotations[{number}]: image {entry['image_id']} or category {entry['category_id']} is not "
                "listed in the file. Add it, or remove the annotation."
            )
        rows.append(row_of[entry["image_id"]])
        columns.append(column_of[entry["category_id"]])
    del content

    names = [checked_path(entry["file_name"], f"{path}, image {entry['id']}") for entry in pictures]
    if len(set(names)) != len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise DataError(f"{path}: two images have the file_name {twice!r}. Each needs its own.")
    shape = (len(names), len(categories))
    pairs = coo_array((np.ones(len(rows), dtype=np.bool_), (rows, columns)), shape=shape).tocsr()
    root = _image_folder(path, names) if images is None else Path(images)
    table = LabelTable(
        root, names, tuple(entry["name"] for entry in categories), pairs, source=str(path), classes_given=True
    )
    if unannotated == "drop":
        table = table.select(np.diff(table.positive.indptr) > 0)
    if not len(table):
        raise DataError(
            f"{path}: no image is left. Without annotations, read it with unannotated='keep' "
            "(--data-option unannotated=keep)."
        )
    return table if classes is None else table.with_classes(classes)


def _load(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MAX_JSON_BYTES:
        raise DataError(f"{path}: larger than {MAX_JSON_BYTES} bytes. Split it, or write the labels as a CSV file.")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error}). A COCO instances file is expected.") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: found a JSON {type(content).__name__} where a COCO instances file has an object.")
    return content


def _entries(path: Path, content: dict[str, Any], section: str, **fields: type) -> Iterator[dict[str, Any]]:
    """The entries of one section, each with these fields, of these types."""
    entries = content.get(section)
    if not isinstance(entries, list):
        raise DataError(f"{path}: no list called {section!r}. A COCO file has images, annotations and categories.")
    for number, entry in enumerate(entries):
        for field, kind in fields.items():
            if not isinstance(entry, dict) or not isinstance(entry.get(field), kind):
                raise DataError(
                    f"{path}, {section}[{number}]: {field!r} is missing or is no {kind.__name__}. Correct it."
                )
        yield entry


def _positions(path: Path, section: str, entries: Sequence[dict[str, Any]]) -> dict[int, int]:
    positions = {entry["id"]: position for position, entry in enumerate(entries)}
    if len(positions) != len(entries):
        raise DataError(f"{path}: two {section} have the same id. Each needs its own.")
    return positions


def _image_folder(path: Path, names: Sequence[str]) -> Path:
    """The first usual place in which one of the first images lies."""
    split = path.stem.rpartition("_")[2]  # instances_val2017 -> val2017
    above = path.parent.parent
    places = [path.parent, path.parent / split, above / split, above / "images" / split]
    places += [path.parent / "images", above / "images", above]
    for place in places:
        if any((place / name).is_file() for name in names[:_PROBES]):
            return place
    looked = ", ".join(str(place) for place in places)
    raise DataError(
        f"{path}: images such as {names[:1]} lie in none of {looked}. Say where with images=FOLDER "
        "(--data-option images=FOLDER)."
    )
