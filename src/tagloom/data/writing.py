"""Writing a label table as a CSV file that `load_table` reads again."""

import csv
from pathlib import Path

import numpy as np

from tagloom.data.parsing.fields import join_labels
from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.files import whole_file

CLASSES_FILE = "classes.txt"


def write_table(table: LabelTable, path: Path) -> Path:
    """Write images, by absolute path, with their labels, and all classes beside them in `classes.txt`.

    Args:
        table: A table without unknown labels; the form has no place for them.
        path: The CSV file.
    """
    if not table.known(np.arange(len(table))).all():
        raise DataError(f"{table.source}: has labels that are unknown, and a list of labels cannot say so.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "labels"])
        for row in range(len(table)):
            names = [table.classes[place] for place in np.flatnonzero(table.targets([row])[0])]
            writer.writerow([table.path(row).resolve(), join_labels(names)])
    (path.parent / CLASSES_FILE).write_text("\n".join(table.classes) + "\n", encoding="utf-8")
    return path
