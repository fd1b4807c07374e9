"""The long tail: how good a tagger is on classes that it learned from many images, from some, and from few.

With thousands of classes, a few have most of the labels, and their figures hide those of the others in F1 over all
tags. The bounds are those of the long-tailed multi-label benchmarks COCO-MLT and VOC-MLT (Wu et al., 2020).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tagloom.errors import DataError

HEAD_ABOVE = 100
TAIL_BELOW = 20
PARTS = {
    "head": f"more than {HEAD_ABOVE} training images",
    "middle": f"{TAIL_BELOW} to {HEAD_ABOVE}",
    "tail": f"fewer than {TAIL_BELOW}",
}
"""The parts of the classes by their positive images in training, and what decides."""


def part_of(positives: int) -> str:
    """Name the part that a class with so many positive images in training belongs to.

    >>> [part_of(count) for count in (101, 100, 20, 19, 0)]
    ['head', 'middle', 'middle', 'tail', 'tail']
    """
    return "head" if positives > HEAD_ABOVE else "tail" if positives < TAIL_BELOW else "middle"


def is_worth_showing(parts: Sequence[dict[str, Any]]) -> bool:
    """Whether classes differ in their parts: one part alone repeats the mAP of all classes.

    >>> is_worth_showing(long_tail([0.5, 0.7], [500, 300])), is_worth_showing(long_tail([0.5, 0.7], [500, 3]))
    (False, True)
    """
    return len([part for part in parts if part["classes"]]) > 1


def long_tail(precision: Sequence[float | None], positives: Sequence[int]) -> list[dict[str, Any]]:
    """Give the mAP of head, middle and tail.

    Args:
        precision: The average precision of each class; None for one that was not measured.
        positives: How many positive images each class had in training.

    Returns:
        For each part: "part", "classes", how many it has; "measured", how many of them have an average precision;
        "mAP", the mean of these, or None without any.

    >>> long_tail([90.0, 60.0, 40.0, None], [500, 20, 3, 0])[2]
    {'part': 'tail', 'classes': 2, 'measured': 1, 'mAP': 40.0}
    """
    if len(precision) != len(positives):
        raise DataError(f"{len(positives)} numbers of training images do not fit {len(precision)} classes.")
    parts = [part_of(count) for count in positives]
    rows = []
    for name in PARTS:
        found = [value for value, part in zip(precision, parts, strict=True) if part == name and value is not None]
        mean = float(np.mean(found)) if found else None
        rows.append({"part": name, "classes": parts.count(name), "measured": len(found), "mAP": mean})
    return rows
