"""Finding what is wrong with a label table and its images before training does."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from tagloom.data.absent import columns_with_few_negatives
from tagloom.data.audit.class_names import likely_slips, name_clashes, rare_columns
from tagloom.data.audit.files import Digest, digest_of, examine, in_threads
from tagloom.data.audit.findings import (
    FEW_POSITIVES,
    MIN_IMAGES,
    Audit,
    DuplicateGroup,
    ImageProblem,
    LabelPair,
    LabelsPerImage,
    Leak,
    LikelySlip,
)
from tagloom.data.audit.labels import labels_per_image, strongest_pairs
from tagloom.data.images import MAX_PIXELS
from tagloom.data.pair_counts import pairs_per_class, unknown_per_class
from tagloom.data.parsing.image_paths import leaves_folder
from tagloom.data.table import LabelTable
from tagloom.progress import Progress, no_progress

__all__ = [
    "FEW_POSITIVES",
    "MIN_IMAGES",
    "Audit",
    "DuplicateGroup",
    "ImageProblem",
    "LabelPair",
    "LabelsPerImage",
    "Leak",
    "LikelySlip",
    "audit",
]


def audit(
    table: LabelTable,
    other: LabelTable | None = None,
    *,
    max_pixels: int = MAX_PIXELS,
    progress: Progress = no_progress,
    workers: int = 2,
) -> Audit:
    """Read every image of a table once, and check its images and labels.

    Args:
        table: The table to audit, usually the training one.
        other: A table that must not share images with it, usually the validation one. Its images are only compared.
        max_pixels: Images whose header gives more pixels are reported as oversized.
        progress: Called after each image.
        workers: Number of threads that read and decode.
    """
    paths = [_plain_name(table, row) for row in range(len(table))]
    row_at = {path: row for row, path in enumerate(paths)}
    others = [] if other is None else [(_plain_name(other, row), other.image(row)) for row in range(len(other))]
    unread = {path: image for path, image in others if path not in row_at}
    total = len(paths) + len(unread)

    problems: list[ImageProblem] = []
    rows_of: dict[bytes, list[int]] = defaultdict(list)
    with ThreadPoolExecutor(max(1, workers), thread_name_prefix="tagloom-audit") as pool:
        images = [table.image(row) for row in range(len(table))]
        examined = in_threads(pool, lambda image: examine(image, max_pixels), images)
        for row, (digest, error) in enumerate(examined):
            if error is not None:
                problems.append(ImageProblem(table.images[row], error.reason, error.finding))
            if digest is not None:
                rows_of[digest].append(row)
            progress(row + 1, total)
        other_digests: dict[str, Digest] = {}
        for path, digest in zip(unread, in_threads(pool, digest_of, list(unread.values())), strict=True):
            other_digests[path] = digest
            progress(len(paths) + len(other_digests), total)

    positives = pairs_per_class(table.positive)
    files = table.images if table.packed is None else []  # names of packed images lead nowhere
    return Audit(
        source=table.source,
        images=len(table),
        classes=list(table.classes),
        positives=positives.tolist(),
        unknown=unknown_per_class(table, positives).tolist(),
        labels_per_image=labels_per_image(table),
        strongest_pairs=strongest_pairs(table, positives),
        classes_without_positive=[table.classes[column] for column in np.flatnonzero(positives == 0)],
        classes_with_few_negatives=[
            table.classes[column] for column in np.flatnonzero(columns_with_few_negatives(table))
        ],
        rare_classes=[table.classes[column] for column in rare_columns(positives)],
        likely_slips=[] if table.classes_given else likely_slips(table.classes, positives),
        class_name_clashes=name_clashes(table.classes),
        class_names_with_outer_spaces=[name for name in table.classes if name != name.strip()],
        repeated_rows=table.repeated,
        ignored_columns=list(table.ignored_columns),
        understood=list(table.understood),
        absolute_paths=[image for image in files if Path(image).is_absolute()],
        paths_outside=[image for image in files if leaves_folder(image)],
        problems=problems,
        duplicates=_duplicates(table, rows_of),
        other=None if other is None else other.source,
        leaks=[] if other is None else _leaks(table, other, row_at, rows_of, other_digests),
    )


def _duplicates(table: LabelTable, rows_of: Mapping[bytes, Sequence[int]]) -> list[DuplicateGroup]:
    return [
        DuplicateGroup([table.images[row] for row in rows], _labels_differ(table, rows))
        for rows in rows_of.values()
        if len(rows) > 1
    ]


def _leaks(
    table: LabelTable,
    other: LabelTable,
    row_at: Mapping[str, int],
    rows_of: Mapping[bytes, Sequence[int]],
    other_digests: Mapping[str, Digest],
) -> list[Leak]:
    leaks: list[Leak] = []
    for row, other_image in enumerate(other.images):
        path = _plain_name(other, row)
        digest = other_digests.get(path)
        if path in row_at:
            leaks.append(Leak(table.images[row_at[path]], other_image, "path"))
        elif digest is not None and digest in rows_of:
            leaks.append(Leak(table.images[rows_of[digest][0]], other_image, "content"))
    return leaks


def _plain_name(table: LabelTable, row: int) -> str:
    """Give a normalised absolute path. Links are not followed, because equal content finds those."""
    return os.path.abspath(str(table.image(row)))  # noqa: PTH100  Path.absolute keeps "..", and resolve asks the disk


def _labels_differ(table: LabelTable, rows: Sequence[int]) -> bool:
    targets, known = table.targets(rows), table.known(rows)
    return bool((targets != targets[0]).any() or (known != known[0]).any())
