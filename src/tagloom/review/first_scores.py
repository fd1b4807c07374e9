"""The tagger's scores of all photos under review, kept in the session's folder: each photo is scored once."""

import hashlib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tagloom.data.table import LabelTable
from tagloom.errors import ImageError
from tagloom.files import whole_file
from tagloom.predict.tagger import Tagger
from tagloom.progress import Progress, no_progress

SCORES_FILE = "scores.npz"


def first_scores(
    tagger: Tagger, table: LabelTable, folder: Path, progress: Progress = no_progress
) -> tuple[NDArray[np.float32], list[ImageError]]:
    """Score the images of a table. Those that the folder has scores of are not read again.

    Returns:
        (images, tagger's classes), NaN for an image that cannot be read; and what is wrong with these.
    """
    identity = hashlib.blake2b(repr(tagger.spec).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
    kept = _read(folder / SCORES_FILE, identity, len(tagger.classes))
    scores = np.full((len(table), len(tagger.classes)), np.nan, np.float32)
    todo = []
    for row, name in enumerate(table.images):
        if name in kept:
            scores[row] = kept[name]
        else:
            todo.append(row)
    errors: list[ImageError] = []
    try:
        for index, found in tagger.stream([table.image(row) for row in todo]):
            if isinstance(found, ImageError):
                errors.append(found)
            else:
                scores[todo[index]] = found
            progress(index + 1, len(todo))
    finally:  # also when somebody stops it
        if todo:
            _write(folder / SCORES_FILE, identity, table.images, scores)
    return scores, errors


def in_columns(
    scores: NDArray[np.float32], tagger_classes: Sequence[str], classes: Sequence[str]
) -> NDArray[np.float32]:
    """Arrange scores (n, tagger's classes) by other classes, (n, classes): NaN where the tagger does not know one."""
    column_of = {name: column for column, name in enumerate(tagger_classes)}
    arranged = np.full((len(scores), len(classes)), np.nan, np.float32)
    for column, name in enumerate(classes):
        if name in column_of:
            arranged[:, column] = scores[:, column_of[name]]
    return arranged


def _read(path: Path, identity: str, classes: int) -> dict[str, NDArray[np.float32]]:
    """Read kept scores by image; nothing if they are another tagger's, or damaged."""
    try:
        with np.load(path, allow_pickle=False) as content:
            names, scores = content["names"].tolist(), content["scores"]
            fits = str(content["identity"]) == identity and scores.shape == (len(names), classes)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return {}
    return dict(zip(names, scores.astype(np.float32), strict=True)) if fits else {}


def _write(path: Path, identity: str, images: Sequence[str], scores: NDArray[np.float32]) -> None:
    scored = np.flatnonzero(~np.isnan(scores).any(1))
    names = np.array([images[row] for row in scored.tolist()], np.str_)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial, partial.open("wb") as file:
        np.savez(file, identity=np.array(identity), names=names, scores=scores[scored])
