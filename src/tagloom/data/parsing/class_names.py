"""Names for classes that a table calls by numbers, as Kaggle's tables do: `labels.csv` with an id and a name each."""

from dataclasses import replace
from pathlib import Path

from tagloom.data.parsing.lines import csv_records
from tagloom.data.regular_file import is_regular
from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.wording import listed, shown

_FILES = (
    *("labels.csv", "names.csv", "classes.csv", "label_names.csv", "class_names.csv", "attributes.csv"),
    *("categories.csv", "tags.csv"),
)
_ID_ENDINGS, _NAME_ENDINGS = (
    ("id", "index", "number", "key"),
    ("name", "label", "class", "category", "attribute", "tag"),
)
MAX_NAMES = 1_000_000


def with_class_names(table: LabelTable, path: Path, names: str | Path | None) -> LabelTable:
    """Replace numbers by names, if the classes are numbers and a file says what they mean.

    Args:
        table: The table.
        path: Its file.
        names: The file with the names; by default one with a usual name next to the table.
    """
    if not all(name.isdecimal() for name in table.classes) or table.classes_given:
        if names is not None:
            raise DataError(f"{path}: names={names} says what numbers mean, but the labels are not numbers.")
        return table
    if names is not None:
        return _renamed(table, Path(names), _read_names(Path(names)))
    for file in (path.parent / name for name in _FILES):
        if file != path and is_regular(file):
            try:
                return _renamed(table, file, _read_names(file))
            except DataError as error:
                note = f"labels are numbers; {file.name} does not say what they mean ({error})"
                return replace(table, understood=(*table.understood, note))
    note = "labels are numbers: name a file that says what they mean with names=FILE, if there is one"
    return replace(table, understood=(*table.understood, note))


def _renamed(table: LabelTable, file: Path, name_of: dict[str, str]) -> LabelTable:
    if lacking := [number for number in table.classes if number not in name_of]:
        raise DataError(f"{file}: has no name for {listed(map(shown, lacking))}.")
    renamed = replace(table, classes=tuple(name_of[number] for number in table.classes))
    first = table.classes[0]
    note = f"labels are numbers, and {file.name} says what they mean: {first} is {shown(name_of[first])}"
    return replace(
        renamed.with_classes(sorted(renamed.classes)), classes_given=False, understood=(*table.understood, note)
    )


def _read_names(file: Path) -> dict[str, str]:
    """Read numbers and names from a CSV file with a header."""
    records = csv_records(file)
    _, header = next(records, (0, []))
    plain = [name.strip().lower().lstrip("\ufeff") for name in header]
    numbers = next((column for column, name in enumerate(plain) if name.endswith(_ID_ENDINGS)), None)
    names = next(
        (column for column, name in enumerate(plain) if name.endswith(_NAME_ENDINGS) and column != numbers), None
    )
    if numbers is None or names is None:
        raise DataError(f"{file}: expected a header such as 'attribute_id,attribute_name'.")
    found: dict[str, str] = {}
    read = 0
    for number, fields in records:
        if len(fields) <= max(numbers, names) or len(found) >= MAX_NAMES:
            raise DataError(f"{file}, line {number}: expected a number and a name.")
        found[fields[numbers].strip()] = fields[names].strip()
        read += 1
    if not read == len(found) == len(set(found.values())):
        raise DataError(f"{file}: expected one line per class, with a number and a name of its own.")
    return found
