"""Counting labels: per class, per image, and classes that co-occur."""

import numpy as np
from numpy.typing import NDArray

from tagloom.data.audit.findings import LabelPair, LabelsPerImage
from tagloom.data.table import LabelTable

STRONGEST_PAIRS = 20
_CHUNK = 512  # classes whose pairs are counted at a time


def labels_per_image(table: LabelTable) -> LabelsPerImage:
    """Count the labels of each image."""
    counts = np.diff(table.positive.indptr)
    if not len(counts):
        return LabelsPerImage(0.0, 0, 0, 0, [])
    histogram = np.bincount(counts).tolist()
    return LabelsPerImage(float(counts.mean()), int(counts.min()), int(counts.max()), histogram[0], histogram)


def strongest_pairs(table: LabelTable, positives: NDArray[np.int64]) -> list[LabelPair]:
    """Find the pairs of classes with the largest overlap: images with both over images with either.

    A pair must co-occur in at least two images and in a thousandth of all, so that chance does not lead the list.
    """
    enough = max(2, len(table) // 1000)
    counts = table.positive.astype(np.int32)
    by_class = counts.T.tocsr()
    found: list[tuple[float, int, int, int]] = []
    for start in range(0, len(table.classes), _CHUNK):
        block = (by_class[start : start + _CHUNK] @ counts).tocoo()
        first, second, together = block.row + start, block.col, block.data
        kept = (first < second) & (together >= enough)
        first, second, together = first[kept], second[kept], together[kept]
        overlap = together / (positives[first] + positives[second] - together)
        best = np.argsort(-overlap, kind="stable")[:STRONGEST_PAIRS]
        found += zip(
            overlap[best].tolist(), together[best].tolist(), first[best].tolist(), second[best].tolist(), strict=True
        )
    found.sort(key=lambda pair: (-pair[0], -pair[1], pair[2:]))
    return [
        LabelPair(table.classes[a], table.classes[b], both, both / int(positives[a]), both / int(positives[b]))
        for _, both, a, b in found[:STRONGEST_PAIRS]
    ]
