"""What comes out of a review: a label table, the corrections of a table, or keywords in photos."""

import csv
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from tagloom.data.label_tree import LabelTree
from tagloom.data.parsing.image_paths import path_field
from tagloom.data.writing import write_known_pairs
from tagloom.files import whole_file
from tagloom.predict.files import Naming
from tagloom.predict.keywords import PhotoResult, Place, review_keywords
from tagloom.review.photos import what_is_known
from tagloom.review.session import Session

LABELS_FILE = "labels.csv"
CORRECTIONS_FILE = "corrections.csv"


def write_labels(session: Session, path: Path | None = None) -> Path:
    """Write the table with the answers over it: 1, 0, or nothing where it is not known. It can be trained on."""
    path = path or session.folder / LABELS_FILE
    naming = Naming(path.parent)
    names = [naming.path(session.table.path(row)) for row in range(len(session.table))]
    table = session.known().table(session.table, session.classes, names, path.parent)
    return write_known_pairs(table, path)


def write_corrections(session: Session, path: Path | None = None) -> Path:
    """Write each pair that an answer changed: image, label, what it was (1, 0 or nothing) and what it is now."""
    path = path or session.folder / CORRECTIONS_FILE
    table, classes, naming = session.table, session.classes, Naming(path.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "label", "was", "now"])
        for row in _answered_rows(session):
            one, row_of = table.select([row]), {table.images[row]: 0}
            now = what_is_known(one, classes, session.answers, row_of)
            was = np.full(len(classes), "", object)
            was[: len(table.classes)] = np.where(one.known([0])[0], one.targets([0])[0].astype(str), "")
            is_now = np.where(now.known[0], now.targets[0].astype(np.uint8).astype(str), "")
            for column in np.flatnonzero((was != is_now) & (is_now != "") & ((was != "") | (is_now == "1"))).tolist():
                image = path_field(naming.path(table.path(row)))
                writer.writerow([image, path_field(classes[column]), was[column], is_now[column]])
    return path


def write_keywords(session: Session, place: Place | None = None) -> Iterator[PhotoResult]:
    """Write the labels of answered photos as keywords, and mark these photos as reviewed.

    A photo with a label that somebody was unsure of gets its keywords too, but is not marked: the mark says that all
    other keywords do not apply.
    """
    place, date = place or Place(), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    paths = LabelTree(session.classes, session.table.parents).paths
    for row in _answered_rows(session):
        known = what_is_known(
            session.table.select([row]), session.classes, session.answers, {session.table.images[row]: 0}
        )
        said = {paths[column] for column in np.flatnonzero(known.targets[0]).tolist()}
        keywords = sorted(path for path in said if not any(other.startswith(f"{path}|") for other in said))
        yield review_keywords(session.table.path(row), keywords, date if known.known[0].all() else "", place)


def _answered_rows(session: Session) -> list[int]:
    return [row for row in range(len(session.table)) if session.answer_of(row) is not None]
