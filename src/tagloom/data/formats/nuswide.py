"""NUS-WIDE as zero-shot papers share it: `data.csv` with a path, a list of labels and a split in every row.

    filepath,label,split_name
    images/0001_2124494179.jpg,"[sky, water]",train

Its 1,006 labels are the 925 seen and 81 unseen ones; which are unseen says `benchmark_81_v0.json` beside it, as a split
of labels (`data.label_split`). The file of the 81 labels alone has the same form.
"""

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from tagloom.data.formats.classes import given_classes
from tagloom.data.formats.delimited import text_lines
from tagloom.data.formats.pairs import PairRows
from tagloom.data.formats.sheet import checked_path
from tagloom.data.table import LabelTable
from tagloom.errors import DataError

SPLITS = ("train", "val", "test")


def is_nus_wide(path: Path) -> bool:
    """Whether a path is a CSV whose first row below the header is a path, a list in brackets and a split."""
    if not path.is_file() or path.suffix.lower() != ".csv":
        return False
    try:
        rows = [fields for _, fields in islice(csv_records(path), 2)]
    except DataError:
        return False  # the reader of other CSV files says what is wrong with it
    return len(rows) == 2 and len(rows[1]) == 3 and _is_list(rows[1][1]) and rows[1][2].strip() in SPLITS


def read_nus_wide(
    path: Path, classes: Sequence[str] | None = None, *, split: str | None = None, images: str | Path | None = None
) -> LabelTable:
    """Read a data.csv of NUS-WIDE.

    Args:
        path: The file.
        classes: The order of classes; without it that of `classes.txt` beside the file, else sorted. They are those of
            all splits, so that each split has the same.
        split: train, val or test; without it, every row.
        images: The folder that image paths start from; without it, the file's own.
    """
    rows: list[tuple[str, list[str]]] = []
    names: dict[str, None] = {}
    splits: dict[str, int] = {}
    for number, fields in islice(csv_records(path), 1, None):
        if len(fields) != 3 or not _is_list(fields[1]):
            raise DataError(f"{path}, line {number}: a path, a list of labels in brackets and a split are expected.")
        labels = _labels(fields[1])
        names |= dict.fromkeys(labels)
        part = fields[2].strip()
        splits[part] = splits.get(part, 0) + 1
        if split is None or part == split:
            rows.append((checked_path(fields[0].strip(), f"{path}, line {number}"), labels))
    if not rows:
        found = ", ".join(f"{name} ({count})" for name, count in splits.items()) or "no rows"
        raise DataError(f"{path}: no row of the split {split!r}. Found: {found}.")
    if len({image for image, _ in rows}) != len(rows):
        raise DataError(f"{path}: an image is listed twice. Put all its labels into one row.")
    order = sorted(names)
    column_of = {name: column for column, name in enumerate(order)}
    positive = PairRows()
    for _, labels in rows:
        positive.append([column_of[name] for name in labels])
    table = LabelTable(
        path.parent if images is None else Path(images),
        [image for image, _ in rows],
        tuple(order),
        positive.to_matrix(len(order)),
        source=str(path) + (f" ({split})" if split else ""),
        classes_given=True,
    )
    wanted = given_classes(path, classes)
    return table if wanted is None else table.with_classes(wanted.names)


def csv_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each record's last line number and fields."""
    reader = csv.reader((line for _, line in text_lines(path)), strict=True)
    try:
        for fields in reader:
            if fields:
                yield reader.line_num, fields
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: not CSV ({error}). Correct the line.") from error


def _is_list(field: str) -> bool:
    return field.strip().startswith("[") and field.strip().endswith("]")


def _labels(field: str) -> list[str]:
    """Part a list of labels, whose names may stand in quotes.

    >>> _labels("[sky, 'water']"), _labels("[]")
    (['sky', 'water'], [])
    """
    pieces = (piece.strip().strip("'\"").strip() for piece in field.strip()[1:-1].split(","))
    return list(dict.fromkeys(piece for piece in pieces if piece))
