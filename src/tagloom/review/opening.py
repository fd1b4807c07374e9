"""Opening a session: the table, the tagger's scores, and what goes first."""

import csv
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from tagloom.data.table import LabelTable
from tagloom.errors import DataError, ImageError
from tagloom.predict.tagger import Tagger
from tagloom.progress import Progress, no_progress
from tagloom.review.first_scores import first_scores, in_columns
from tagloom.review.learning import Pooled, pooled_features
from tagloom.review.photos import read_table
from tagloom.review.session import Session

IMAGE_COLUMN = "image"


def open_session(
    tagger: Tagger,
    places: Sequence[Path],
    folder: Path,
    *,
    cache_folder: Path,
    options: Mapping[str, str] | None = None,
    doubts: Path | None = None,
    device: str = "auto",
    progress: Progress = no_progress,
) -> tuple[Session, list[ImageError]]:
    """Open a review, or continue the one in its folder.

    Args:
        tagger: Makes the first suggestions.
        places: A label table, a folder of photos, or photos.
        folder: Where answers and scores are kept.
        cache_folder: Where features are kept.
        options: How the table is read.
        doubts: A file whose images are asked about first.
        device: Where features are computed.
        progress: Called with photos scored and to score.

    Returns:
        The session, and the images that cannot be read, which are left out of it.
    """
    table = read_table(places, tagger.classes, options or {})
    scores, errors = first_scores(tagger, table, folder, progress)
    readable = np.flatnonzero(~np.isnan(scores).any(1))
    if not len(readable):
        raise DataError(f"{table.source}: no image can be read. The first: {errors[0] if errors else 'none'}")
    table, scores = table.select(readable), scores[readable]
    limits = in_columns(tagger.spec.threshold_row()[None], tagger.classes, table.classes)[0]
    session = Session(
        folder,
        table,
        in_columns(scores, tagger.classes, table.classes),
        np.nan_to_num(limits, nan=0.5),
        partial(_features, cache_folder, device),
        _first(doubts, table),
    )
    return session, errors


def _features(cache_folder: Path, device: str, images: Sequence[Path], progress: Progress) -> Pooled:
    return pooled_features(images, cache_folder=cache_folder, device=device, progress=progress)


def _first(doubts: Path | None, table: LabelTable) -> list[int]:
    """Give the rows that a file of doubts names, each once, in its order."""
    if doubts is None:
        return []
    try:
        with doubts.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if IMAGE_COLUMN not in (reader.fieldnames or ()):
                raise DataError(f"{doubts}: has no column {IMAGE_COLUMN!r}. Give a file that tagloom doubts wrote.")
            named = [row[IMAGE_COLUMN] or "" for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{doubts}: cannot be read ({error}).") from error
    row_of = {name: row for row, name in enumerate(table.images)}
    by_path = {table.path(row).absolute(): row for row in range(len(table))}
    rows = (row_of.get(name, by_path.get((doubts.parent / name).absolute(), -1)) for name in named)
    found = [row for row in dict.fromkeys(rows) if row >= 0]
    if named and not found:
        raise DataError(f"{doubts}: names no image of {table.source}. Is it about another table?")
    return found
