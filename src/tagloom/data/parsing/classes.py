"""The classes a table is read with: those the caller asks for, or those that `classes.txt` next to the table lists."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tagloom.data.regular_file import is_regular, read_regular
from tagloom.data.table import not_a_class
from tagloom.errors import DataError
from tagloom.wording import shown

CLASSES_FILE = "classes.txt"
MAX_CLASSES_BYTES = 64 * 2**20


@dataclass(frozen=True)
class GivenClasses:
    """The classes that a table's labels must be among, in order, and who gave them."""

    names: tuple[str, ...]
    origin: str

    def unknown(self, name: str) -> str:
        """Say that a label is not among these classes, and where to fix that."""
        return f"{not_a_class(name, self.names)} Correct the label, or add it to the classes, given by {self.origin}."


def given_classes(table: Path, asked: Sequence[str] | None) -> GivenClasses | None:
    """Return the classes asked for, else those of a `classes.txt` next to the table, else None: the labels decide."""
    if asked is not None:
        return GivenClasses(tuple(asked), "classes=")
    file = table.parent / CLASSES_FILE
    return GivenClasses(read_classes(file), str(file)) if is_regular(file) and file != table else None


def read_classes(path: Path) -> tuple[str, ...]:
    """Read the names in a text file, one per line. Blank lines and spaces around names are ignored."""
    try:
        data = read_regular(path, MAX_CLASSES_BYTES)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}). Expected one class name per line.") from error
    if len(data) > MAX_CLASSES_BYTES:
        raise DataError(f"{path}: larger than {MAX_CLASSES_BYTES} bytes. Expected one class name per line.")
    try:
        lines = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start}). Save it as UTF-8.") from error
    line_of: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        name = line.strip()
        if name in line_of:
            raise DataError(
                f"{path}, line {number}: class {shown(name)} is already on line {line_of[name]}. Remove one."
            )
        if name:
            line_of[name] = number
    if not line_of:
        raise DataError(f"{path}: no class names. Write one per line, or remove the file.")
    return tuple(line_of)
