"""Writing a label table as a CSV file that `load_table` reads back."""

import csv
from pathlib import Path

import numpy as np

from tagloom.data.parsing.classes import CLASSES_FILE
from tagloom.data.parsing.fields import join_labels
from tagloom.data.parsing.image_paths import path_field
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
    if not table.known(np.arange(len(table))).all():
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
