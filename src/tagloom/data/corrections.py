"""Answers about single pairs, from a CSV file that somebody has gone through, and a table corrected by them.

The file has the columns `image`, `label` and `answer`, and any others. An answer is yes (the image has the label), no,
or nothing, which changes nothing.
"""

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from scipy.sparse import csr_array

from tagloom.data.parsing.fields import join_labels, split_labels
from tagloom.data.parsing.image_paths import checked_path, path_field
from tagloom.data.regular_file import open_regular
from tagloom.data.table import LabelTable, Pairs, not_a_class, pairs_at
from tagloom.errors import DataError
from tagloom.wording import shown

COLUMNS = ("image", "label", "answer")
_MEANINGS = {"yes": True, "y": True, "1": True, "true": True, "no": False, "n": False, "0": False, "false": False}


class Answer(NamedTuple):
    """Somebody's word about one pair: whether the image has the label."""

    image: str
    label: str
    present: bool


class Corrected(NamedTuple):
    """A corrected table, and how many labels were added and taken away; the others were confirmed."""

    table: LabelTable
    added: int
    removed: int
    confirmed: int


def pair_fields(image: str, label: str) -> tuple[str, str]:
    """Write an image and a label as fields that `read_answers` reads back, and no spreadsheet as a formula."""
    return path_field(image), join_labels([label])


def read_answers(path: Path) -> list[Answer]:
    """Read the rows of a file that have an answer."""
    try:
        with open_regular(path) as stream:
            text = stream.read().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}). Give the .csv that tagloom doubts wrote.") from error
    rows = csv.DictReader(text.splitlines(keepends=True))
    if missing := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
        raise DataError(f"{path}: has no column {shown(missing[0])}. Give the .csv that tagloom doubts wrote.")
    return list(_answers(rows, path))


def _answers(rows: "csv.DictReader[str]", path: Path) -> Iterator[Answer]:
    for row in rows:
        where, answer = f"{path}: line {rows.line_num}", (row["answer"] or "").strip().casefold()
        if not answer:
            continue
        if answer not in _MEANINGS:
            raise DataError(f"{where}: the answer is {shown(answer)}. Write yes, no, or nothing.")
        labels = split_labels(row["label"] or "", "|")
        if len(labels) != 1:
            raise DataError(f"{where}: found {len(labels)} labels; a row is about one.")
        yield Answer(checked_path(row["image"], where), labels[0], _MEANINGS[answer])


def correct(table: LabelTable, answers: list[Answer], source: str) -> Corrected:
    """Correct a table; of two answers about a pair the later one counts.

    Args:
        table: The table.
        answers: Answers about its images and classes.
        source: Where they come from, for messages.
    """
    row_of = {image: row for row, image in enumerate(table.images)}
    column_of = {name: column for column, name in enumerate(table.classes)}
    said: dict[tuple[int, int], bool] = {}
    for answer in answers:
        name = answer.image.removeprefix("./")
        row = row_of.get(answer.image, row_of.get(name))
        if row is None:
            raise DataError(f"{source}: {answer.image} is not an image of {table.source}. Name the table it is about.")
        if answer.label not in column_of:
            raise DataError(f"{source}: {not_a_class(answer.label, table.classes)}")
        said[row, column_of[answer.label]] = answer.present
    shape = (len(table), len(table.classes))
    yes, no = (_pairs([pair for pair, present in said.items() if present is kind], shape) for kind in (True, False))
    before = table.positive
    positive = _without(_joined(before, yes), no)
    exceptions = table.exceptions
    if table.unlisted == "unknown":
        listed = no if exceptions is None else _joined(exceptions, no)
        exceptions = _without(listed, yes)
    elif exceptions is not None:
        exceptions = _without(exceptions, _joined(yes, no))
    added, removed = int(_without(positive, before).nnz), int(_without(before, positive).nnz)
    corrected = replace(table, positive=positive, exceptions=exceptions)
    return Corrected(corrected, added, removed, len(said) - added - removed)


def _pairs(pairs: list[tuple[int, int]], shape: tuple[int, int]) -> Pairs:
    return pairs_at([row for row, _ in pairs], [column for _, column in pairs], shape)


def _joined(first: Pairs, second: Pairs) -> Pairs:
    return csr_array(first + second)


def _without(pairs: Pairs, taken: Pairs) -> Pairs:
    return csr_array(pairs > taken)
