"""The classes a table is read with: those asked for, or those that `classes.txt` beside the table lists."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tagloom.data.table import not_a_class
from tagloom.errors import DataError

MAX_CLASSES_BYTES = 64 * 2**20


@dataclass(frozen=True)
class GivenClasses:
    """An order of classes that the labels of a table must keep to, and where it was given."""

    names: tuple[str, ...]
    origin: str

    def unknown(self, name: str) -> str:
        """Say that a label is not among these classes, and where to mend that."""
        return f"{not_a_class(name, self.names)} Correct the label, or add it to the classes, given by {self.origin}."


def given_classes(table: Path, asked: Sequence[str] | None) -> GivenClasses | None:
    """The classes asked for; else those of a `classes.txt` beside the table; else None, and the labels decide."""
    if asked is not None:
        return GivenClasses(tuple(asked), "classes=")
    beside = table.parent / "classes.txt"
    return GivenClasses(read_classes(beside), str(beside)) if beside.is_file() and beside != table else None


def read_classes(path: Path) -> tuple[str, ...]:
    """The names in a text file, one a line; blank lines and spaces around names do not count."""
    if path.stat().st_size > MAX_CLASSES_BYTES:
        raise DataError(f"{path}: larger than {MAX_CLASSES_BYTES} bytes. One class name a line is expected.")
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start}). Save it as UTF-8.") from error
    line_of: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        name = line.strip()
        if name in line_of:
            raise DataError(f"{path}, line {number}: class {name!r} is on line {line_of[name]} already. Remove one.")
        if name:
            line_of[name] = number
    if not line_of:
        raise DataError(f"{path}: no class names. Write one a line, or remove the file.")
    return tuple(line_of)
