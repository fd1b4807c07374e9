"""Writing a label table as a file that `load_table` reads back."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tagloom.data.pair_counts import pairs_per_class, unknown_per_class
from tagloom.data.parsing.classes import CLASSES_FILE
from tagloom.data.parsing.fields import join_labels
from tagloom.data.parsing.image_paths import FORMULA_MARKS, path_field
from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.files import whole_file
from tagloom.wording import listed, shown


def write_table(table: LabelTable, path: Path) -> Path:
    """Write images, by absolute path, with their labels, and all classes to `classes.txt` next to the file.

    An image that is a link is named by the link.

    Args:
        table: A table without unknown pairs, which a list of labels cannot express.
        path: The CSV file.
    """
    if unknown_per_class(table, pairs_per_class(table.positive)).any():
        raise DataError(f"{table.source}: has unknown pairs, which a list of labels cannot express.")
    if odd := [name for name in table.classes if name != name.strip() or "\n" in name or "\r" in name]:
        found = listed(map(shown, odd))
        raise DataError(f"{table.source}: {CLASSES_FILE} cannot hold these names of classes: {found}. Rename them.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "labels"])
        for row in range(len(table)):
            names = [table.classes[column] for column in np.flatnonzero(table.targets([row])[0])]
            writer.writerow([path_field(str(table.path(row).absolute())), join_labels(names)])
    with whole_file(path.parent / CLASSES_FILE) as partial:
        partial.write_text("\n".join(table.classes) + "\n", encoding="utf-8")
    return path


def check_table_name(path: Path) -> None:
    """Refuse a name of a table that `write_known_pairs` does not write."""
    if path.suffix not in (".csv", ".jsonl"):
        raise DataError(f"{path}: labels are written as .csv or .jsonl; use one of these suffixes.")


def write_known_pairs(table: LabelTable, path: Path) -> Path:
    """Write a table, with unknown pairs or without, under the images' own names, which are relative to the file.

    A .csv has a column of labels if every pair is known, and otherwise a column per class with 1, 0 or nothing. A
    .jsonl has a key for each known pair, so it stays small where almost everything is unknown.
    """
    check_table_name(path)
    if "image" in table.classes:
        raise DataError(f"{table.source}: a class called 'image' would hide the column of images. Leave it out.")
    write = _write_records if path.suffix == ".jsonl" else _write_columns
    if path.suffix == ".csv" and table.unlisted == "negative" and table.exceptions is None:
        write = _write_labels
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        whole_file(path) as partial,
        partial.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
    ):
        for line in write(table):
            file.write(line)
    return path


def _write_labels(table: LabelTable) -> Iterator[str]:
    yield _csv_line(["image", "labels"])
    for row, image in enumerate(table.images):
        names = [table.classes[column] for column in np.flatnonzero(table.targets([row])[0])]
        yield _csv_line([path_field(image), join_labels(names)])


def _write_columns(table: LabelTable) -> Iterator[str]:
    if odd := [name for name in table.classes if name.startswith(FORMULA_MARKS)]:
        raise DataError(
            f"{table.source}: a spreadsheet would take {listed(map(shown, odd))} for a formula. Write a .jsonl file, "
            "or leave the label out."
        )
    yield _csv_line(["image", *table.classes])
    for row, image in enumerate(table.images):
        marks = np.where(table.known([row])[0], np.where(table.targets([row])[0] == 1, "1", "0"), "")
        yield _csv_line([path_field(image), *marks.tolist()])


def _write_records(table: LabelTable) -> Iterator[str]:
    for row, image in enumerate(table.images):
        targets, known = table.targets([row])[0], np.flatnonzero(table.known([row])[0])
        marks = {table.classes[column]: int(targets[column]) for column in known.tolist()}
        yield json.dumps({"image": image, **marks}, ensure_ascii=False) + "\n"


def _csv_line(fields: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(fields)
    return line.getvalue()
