r"""The labels field of a table: how names are joined in it, and how to find out.

Names are joined by `|`, `;` or `,`, or are a list (`["dog", "cat"]`), or are words and quoted names separated by spaces
(`"dining table" dog`). A name in double quotes may contain anything, with quotes doubled. Without quotes, spaces around
a name are ignored. The whole column decides which of these it uses:

1. If the classes are known, the first of list, `|`, `;`, `,`, one name per field, spaces for which every name in the
   column is a class.
2. Otherwise a list if every field is one; else the first of `|`, `;`, `,` that occurs outside quotes; else spaces, if
   somewhere a quoted name is followed or preceded by another name, or every field holds numbers and one holds several;
   else one name per field.

So guessing never breaks a name with spaces: spaces separate only where quotes, the known classes or nothing but numbers
say so.
"""

import ast
import json
import re
from collections.abc import Collection, Iterable
from typing import Literal, TypeAlias, get_args

from tagloom.data.parsing.image_paths import FORMULA_MARKS
from tagloom.errors import DataError
from tagloom.wording import shown

Separator: TypeAlias = Literal["list", "|", ";", ",", "", " "]
"""How names are joined: "" is one name per field, " " any run of spaces."""
SEPARATORS: tuple[Separator, ...] = get_args(Separator)

_MARKS: tuple[Separator, ...] = ("|", ";", ",")
_BOUNDARIES = {"|": r"\|", ";": ";", ",": ",", "": r"(?!)", " ": r"\s+"}
_NAMES = {
    separator: re.compile(rf'\s*(?:"((?:[^"]|"")*)"\s*(?={end}|\Z)|((?:(?!{end}).)*))(?:{end}|\Z)', re.DOTALL)
    for separator, end in _BOUNDARIES.items()
}
_QUOTED_NAME = re.compile(r'(?<![^|;,\s])"(?:[^"]|"")*"(?=[|;,\s]|\Z)')
_HELD = "\0"
_HELD_NEXT_TO_A_NAME = re.compile(rf"{_HELD}\s+\S|\S\s+{_HELD}")
# A Python list of strings with all its commas: literal_eval alone would read ['a' 'b'] as one name.
# Quantifiers are possessive (*+), which takes linear time: nothing is tried again after a mismatch.
_STRING = r"""(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")"""
_LITERAL_LIST = re.compile(rf"\[\s*+(?:{_STRING}\s*+(?:,\s*+{_STRING}\s*+)*+(?:,\s*+)?+)?+\]", re.DOTALL)
_NUMBERS = re.compile(r"\s*+\d{1,18}(?:\s++\d{1,18})*+\s*+", re.ASCII)
_NUMBER_LIST = re.compile(r"\[\s*+\d{1,18}\s*+(?:,\s*+\d{1,18}\s*+)*+\]", re.ASCII)


def split_labels(field: str, separator: Separator) -> list[str]:
    """Split a labels field into names, without empty ones.

    >>> split_labels('dining table | dog|"cat, tabby"', "|")
    ['dining table', 'dog', 'cat, tabby']
    >>> split_labels('"dining table" dog', " ")
    ['dining table', 'dog']
    """
    if separator == "list":
        names = as_list(field) if field.strip() else []
        if names is None:
            raise DataError(f"{shown(field)} is not a list of names")
        return names
    if '"' in field:
        found = (
            quoted.replace('""', '"') if quoted is not None else bare.strip()
            for quoted, bare in (match.groups() for match in _NAMES[separator].finditer(field))
        )
        return [name for name in found if name]
    if separator == " ":
        return field.split()
    pieces = field.split(separator) if separator else [field]
    return [name for piece in pieces if (name := piece.strip())]


def join_labels(names: Collection[str], separator: Separator = "|") -> str:
    """Write names as a field that `split_labels` reads back, however the separator is found.

    >>> join_labels(["dining table", "cat, tabby"])
    'dining table|"cat, tabby"'
    """
    if separator == "list":
        return json.dumps(list(names), ensure_ascii=False)
    if separator == "" and len(names) > 1:
        raise DataError(f"{len(names)} names do not fit into a field for one name. Choose a separator.")
    return separator.join(_quoted(name) if separator == " " or _needs_quotes(name) else name for name in names)


def separator_by_classes(fields: Iterable[str], classes: Collection[str]) -> Separator | None:
    """Find the separator for which every name in the column is one of the classes; None if there is none."""
    order: tuple[Separator, ...] = SEPARATORS
    for field in fields:
        order = tuple(separator for separator in order if _holds_only(field, separator, classes))
        if not order:
            return None
    return order[0]


def separator_by_look(fields: Iterable[str]) -> Separator:
    """Find the separator that the marks and quotes in the column suggest.

    >>> separator_by_look(["dog", "dining table, dog"])
    ','
    >>> separator_by_look(["dog", "dining table"]), separator_by_look(["147 616", "3"])
    ('', ' ')
    """
    lists, adjacent, marks = 0, False, set[Separator]()
    nothing_but_lists = nothing_but_numbers = True
    several = False
    for field in fields:
        if not field.strip():
            continue
        nothing_but_lists = nothing_but_lists and as_list(field) is not None
        lists += nothing_but_lists
        bare = _QUOTED_NAME.sub(_HELD, field) if '"' in field else field
        nothing_but_numbers = nothing_but_numbers and _NUMBERS.fullmatch(field) is not None
        several = several or len(field.split(None, 1)) > 1
        marks.update(mark for mark in _MARKS if mark in bare)
        adjacent = adjacent or _HELD_NEXT_TO_A_NAME.search(bare) is not None
        if _MARKS[0] in marks and not nothing_but_lists:
            break
    if nothing_but_lists and lists:
        return "list"
    spaces = adjacent or (nothing_but_numbers and several)
    return next((mark for mark in _MARKS if mark in marks), " " if spaces else "")


def _holds_only(field: str, separator: Separator, classes: Collection[str]) -> bool:
    if separator == "list":
        names = as_list(field) if field.strip() else []
        return names is not None and all(name in classes for name in names)
    return all(name in classes for name in split_labels(field, separator))


def as_list(field: str) -> list[str] | None:
    """Return the names in a JSON or Python list of strings or whole numbers; None if the field is something else."""
    text = field.strip()
    if text.startswith("[") and _NUMBER_LIST.fullmatch(text):
        return [number.strip() for number in text[1:-1].split(",")]
    if not (text.startswith("[") and text.endswith("]") and _LITERAL_LIST.fullmatch(text)):
        return None
    try:
        names = json.loads(text)
    except ValueError:
        try:
            names = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
    return [name for name in names if name]


def _needs_quotes(name: str) -> bool:
    risky = name.startswith(("[", *FORMULA_MARKS))  # a list to us, or a formula to a spreadsheet
    numbers = len(name.split(None, 1)) > 1 and _NUMBERS.fullmatch(name) is not None  # would be several labels
    return risky or numbers or name != name.strip() or any(mark in name for mark in ('"', *_MARKS))


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
