"""NUS-WIDE as zero-shot papers share it: a `data.csv` with a path, a list of labels and a split in every row.

    filepath,label,split_name
    images/0001_2124494179.jpg,"[sky, water]",train

Its 1,006 labels are 925 seen and 81 unseen ones. `benchmark_81_v0.json`, next to it, says which are unseen
(`tagloom.labels.split` reads it). The file with only the 81 labels has the same format.
"""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from tagloom.data.formats.format import Format
from tagloom.data.parsing.classes import given_classes
from tagloom.data.parsing.image_paths import check_distinct, checked_path
from tagloom.data.parsing.lines import csv_records
from tagloom.data.parsing.pairs import PairRows
from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.wording import listed, shown

SPLITS = ("train", "val", "test")


def is_nus_wide(path: Path) -> bool:
    """Whether a path is a CSV whose first row below the header is a path, a list in brackets and a split."""
    if not path.is_file() or path.suffix.lower() != ".csv":
        return False
    try:
        rows = [fields for _, fields in islice(csv_records(path), 2)]
    except DataError:
        return False  # the reader of CSV files will say what is wrong with it
    return len(rows) == 2 and len(rows[1]) == 3 and _is_list(rows[1][1]) and rows[1][2].strip() in SPLITS


def read_nus_wide(
    path: Path, classes: Sequence[str] | None = None, *, split: str | None = None, images: str | Path | None = None
) -> LabelTable:
    """Read NUS-WIDE's data.csv.

    Args:
        path: The file.
        classes: The order of classes; by default that of `classes.txt` next to the file, else sorted. Classes are
            collected from all splits, so that every split has the same ones.
        split: train, val or test; by default every row.
        images: The folder that image paths are relative to; by default the file's own.
    """
    rows: list[tuple[str, list[str]]] = []
    names: dict[str, None] = {}
    splits: dict[str, int] = {}
    for number, fields in islice(csv_records(path), 1, None):
        if len(fields) != 3 or not _is_list(fields[1]):
            raise DataError(f"{path}, line {number}: expected a path, a list of labels in brackets and a split.")
        labels = _labels(fields[1])
        names |= dict.fromkeys(labels)
        part = fields[2].strip()
        splits[part] = splits.get(part, 0) + 1
        if split is None or part == split:
            rows.append((checked_path(fields[0].strip(), f"{path}, line {number}"), labels))
    if not rows:
        found = listed(f"{shown(name)} ({count})" for name, count in splits.items()) or "no rows"
        raise DataError(f"{path}: no row has the split {shown(split)}. Found: {found}.")
    images_listed = [image for image, _ in rows]
    check_distinct(images_listed, str(path))
    order = sorted(names)
    column_of = {name: column for column, name in enumerate(order)}
    positive = PairRows()
    for _, labels in rows:
        positive.append([column_of[name] for name in labels])
    table = LabelTable(
        path.parent if images is None else Path(images),
        images_listed,
        tuple(order),
        positive.to_matrix(len(order)),
        source=str(path) + (f" ({split})" if split else ""),
        classes_given=True,
    )
    wanted = given_classes(path, classes)
    return table if wanted is None else table.with_classes(wanted.names)


def _is_list(field: str) -> bool:
    return field.strip().startswith("[") and field.strip().endswith("]")


def _labels(field: str) -> list[str]:
    """Split a list of labels, whose names may be quoted.

    >>> _labels("[sky, 'water']"), _labels("[]")
    (['sky', 'water'], [])
    """
    pieces = (piece.strip().strip("'\"").strip() for piece in field.strip()[1:-1].split(","))
    return list(dict.fromkeys(piece for piece in pieces if piece))


NUS_WIDE = Format("NUS-WIDE", "NUS-WIDE's data.csv", is_nus_wide, read_nus_wide, ("split", "images"))
