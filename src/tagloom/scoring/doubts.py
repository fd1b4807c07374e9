"""Labels that look wrong or missing, from scores of taggers that did not learn from the image.

Confident learning (Northcutt et al., 2021) counts, for each class, the labels that look wrong and those that look
missing: an image counts as one that has the class if its score is at least the mean score of the images that are said
to have it, and likewise for the absence. The counts say how often a class is mislabelled, each way.

Doubts are ranked by the chance that a label is wrong. Say that each image gets a wrong label with the same small
chance whatever the class, and that each label is missing with the same chance, whichever image it belongs to. Then
Bayes' rule makes the odds of "wrong" proportional to (1 − p) / p, and the odds of "missing" to p / (1 − p), where p is
the calibrated score of the class. Calibration per class is what makes classes comparable: all positives of a hard
class score low. The two kinds are weighed against each other as if as many labels were wrong as are missing. Rates per
class from the counts of confident learning ranked worse in a test with known mistakes (studies/doubts.py): a hard
class looks mislabelled to them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.metrics.blocks import check_shapes

Scores = NDArray[np.float32]

EXPECTED_SHARE = 0.05
"""The share of labels that is expected to be missing, and to be wrong. It scales the chances and changes no order."""
_LEAST = 1e-6  # of a probability, so that odds stay finite


class ClassDoubts(NamedTuple):
    """How a class looks to be labelled.

    Attributes:
        label: The class.
        positives: How many images are said to have it.
        wrong: How many of these look as if they had not.
        missing: How many images that are said not to have it look as if they had.
    """

    label: str
    positives: int
    wrong: int
    missing: int


@dataclass(frozen=True)
class Doubts:
    """Doubts about pairs, worst first, and counts per class.

    Attributes:
        rows: (D,) the images.
        columns: (D,) the classes.
        chances: (D,) the chance that the label is wrong, falling.
        classes: The counts of each class, in the order of the scores.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    chances: NDArray[np.float64]
    classes: list[ClassDoubts]


def find_doubts(
    scores: Scores, targets: NDArray[np.uint8], known: NDArray[np.bool_] | None, classes: Sequence[str], *, count: int
) -> Doubts:
    """Rank labels by the chance that they are wrong.

    Args:
        scores: (n, N) calibrated probabilities, from taggers that did not learn from the image.
        targets: (n, N), what the labels say.
        known: (n, N) bool; unknown pairs are not doubted. None if all are known.
        classes: Label names.
        count: How many doubts to give, at most.
    """
    check_shapes(scores, targets, known)
    counts = [
        _confident_counts(scores[:, column], targets[:, column] > 0, _known(known, column, len(scores)))
        for column in range(scores.shape[1])
    ]
    table = np.array(counts, np.int64).reshape(-1, 4)
    positives, negatives = table[:, 0].sum(), table[:, 1].sum()
    p = np.clip(scores.astype(np.float64), _LEAST, 1 - _LEAST)
    present = p / (1 - p)
    odds = EXPECTED_SHARE * np.where(targets > 0, positives / max(negatives, 1) / present, present)
    chances = odds / (1 + odds)
    chances[:, (table[:, 0] == 0) | (table[:, 1] == 0)] = 0  # nothing to compare with
    if known is not None:
        chances[~known] = 0
    flat = chances.ravel()
    kept = min(count, int((flat > 0).sum()))
    best = np.argsort(-flat, kind="stable")[:kept]
    rows, columns = np.unravel_index(best, chances.shape)
    found = [ClassDoubts(name, int(row[0]), int(row[2]), int(row[3])) for name, row in zip(classes, table, strict=True)]
    return Doubts(rows.astype(np.int64), columns.astype(np.int64), flat[best], found)


def _confident_counts(
    scores: Scores, positive: NDArray[np.bool_], known: NDArray[np.bool_]
) -> tuple[int, int, int, int]:
    """Count the positives and negatives of a class, and those of each that look like the other."""
    yes, no = positive & known, ~positive & known
    if not yes.any() or not no.any():
        return int(yes.sum()), int(no.sum()), 0, 0
    present = scores >= scores[yes].mean()
    absent = scores <= scores[no].mean()
    return int(yes.sum()), int(no.sum()), int((yes & absent & ~present).sum()), int((no & present & ~absent).sum())


def _known(known: NDArray[np.bool_] | None, column: int, images: int) -> NDArray[np.bool_]:
    return np.ones(images, np.bool_) if known is None else known[:, column]
