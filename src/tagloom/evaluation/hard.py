"""Hard instances: the images whose true labels score lowest, and the classes that have most of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tagloom.data.packed.images import ImageFile
from tagloom.data.table import LabelTable
from tagloom.errors import ImageError
from tagloom.evaluation.evaluate import evaluate, table_for
from tagloom.evaluation.findings import image_blocks
from tagloom.metrics import average_precision
from tagloom.metrics.blocks import Known, Targets, flags_by_class, sliced_by_class
from tagloom.predict.tagger import Tag, Tagger
from tagloom.progress import Progress, no_progress


class HardInstance(NamedTuple):
    """A true label to which the tagger gives a low score.

    Attributes:
        row: The image's row.
        label: The true label.
        score: Its score.
        before: How many labels score higher on the same image.
    """

    row: int
    label: str
    score: float
    before: int


@dataclass(frozen=True)
class HardReport:
    """What a tagger finds hard in a table.

    Attributes:
        paths: The images, by row.
        truth: The true labels of each row.
        tags: The tags of each instance.
        instances: The hardest images, hardest first.
        classes: All classes that have positives, hardest first, or by mean α.
        broken: Images that could not be read and are not counted.
        alpha: How much of its intermediate stages a layover tagger mixes in, for each row; None for other taggers.
        by_alpha: Whether classes are ordered by their mean α, largest first.
    """

    paths: list[ImageFile]
    truth: list[list[str]]
    tags: list[list[Tag]]
    instances: list[HardInstance]
    classes: list["HardClass"]
    broken: list[ImageError]
    alpha: NDArray[np.float32] | None = None
    by_alpha: bool = False

    def with_alpha(self, alpha: NDArray[np.float32], order: bool = False) -> "HardReport":
        """Add α (rows,), and order the classes by it if wanted (layover, Table 3)."""
        report = replace(self, alpha=alpha)
        if not order:
            return report
        ordered = sorted(self.classes, key=lambda entry: -report.class_alpha(entry.label))
        return replace(report, classes=ordered, by_alpha=True)

    def class_alpha(self, label: str) -> float:
        """Average α over the positive images of a class; only for a report that has α."""
        alpha = cast(NDArray[np.float32], self.alpha)
        return float(np.mean([value for value, true in zip(alpha, self.truth, strict=True) if label in true]))

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain data."""
        images = [{"image": str(self.paths[entry.row]), **entry._asdict()} for entry in self.instances]
        classes = [entry._asdict() for entry in self.classes]
        if self.alpha is not None:
            for entry in images:
                entry["alpha"] = float(self.alpha[entry["row"]])
            for entry in classes:
                entry["alpha"] = self.class_alpha(entry["label"])
        return {"images": images, "classes": classes}


class HardClass(NamedTuple):
    """A class, by how well its positive images score.

    Attributes:
        label: The class.
        positives: How many images have it.
        score: Their mean score.
        missed: The share of them that does not exceed the threshold.
        average_precision: AP in percent.
    """

    label: str
    positives: int
    score: float
    missed: float
    average_precision: float


def find_hard(
    tagger: Tagger,
    table: LabelTable,
    *,
    count: int,
    ignore_other_labels: bool = False,
    progress: Progress = no_progress,
) -> HardReport:
    """Score a table, and list its hardest images and classes.

    Args:
        tagger: The tagger.
        table: Images with labels.
        count: How many images to list.
        ignore_other_labels: Leave out labels that the tagger does not know, instead of refusing them.
        progress: Called with images done and images to do.
    """
    result = evaluate(tagger, table, ignore_other_labels=ignore_other_labels, progress=progress)
    table = table_for(tagger, table, ignore_other_labels=ignore_other_labels).select(result.rows)
    targets = table.positive
    instances = hard_instances(result.scores, targets, tagger.classes, count)
    return HardReport(
        paths=[table.image(row) for row in range(len(table))],
        truth=[
            [tagger.classes[column] for column in columns]
            for columns in np.split(targets.indices, targets.indptr[1:-1])
        ],
        tags=[tagger.tags(result.scores[entry.row]) for entry in instances],
        instances=instances,
        classes=hard_classes(
            result.scores, targets, table.known_pairs(slice(None)), tagger.classes, tagger.spec.threshold_row()
        ),
        broken=result.broken,
    )


def hard_instances(
    scores: NDArray[np.float32], targets: Targets, classes: Sequence[str], count: int
) -> list[HardInstance]:
    """List the lowest scores of true labels, at most one per image, lowest first.

    Args:
        scores: (images, classes), from 0 to 1.
        targets: (images, classes), 0 or 1.
        classes: Label names.
        count: How many to list.
    """
    lowest = np.zeros(len(scores), np.int64)
    values = np.full(len(scores), np.inf, np.float32)
    for block in image_blocks(scores, targets, None):
        true = np.where(block.true, block.scores, np.inf)
        rows_of = slice(block.start, block.start + len(true))
        lowest[rows_of] = true.argmin(axis=1)
        values[rows_of] = true.min(axis=1)
    rows = [int(row) for row in np.argsort(values, kind="stable")[:count] if np.isfinite(values[row])]
    return [
        HardInstance(
            row, classes[lowest[row]], float(values[row]), before=int((scores[row] > scores[row, lowest[row]]).sum())
        )
        for row in rows
    ]


def hard_classes(
    scores: NDArray[np.float32],
    targets: Targets,
    known: Known,
    classes: Sequence[str],
    thresholds: NDArray[np.float32],
) -> list[HardClass]:
    """List the classes that have positives, lowest mean score of their positive images first.

    Args:
        scores: (images, classes).
        targets: (images, classes).
        known: (images, classes), False where a pair is unknown; None if all are known.
        classes: Label names.
        thresholds: (classes,).
    """
    precision = average_precision(scores, targets, known)
    by_class = sliced_by_class(targets)
    found = []
    for column, label in enumerate(classes):
        of_true = scores[flags_by_class(by_class, column, column + 1)[0], column]
        if len(of_true):
            missed = float((of_true <= thresholds[column]).mean())
            found.append(HardClass(label, len(of_true), float(of_true.mean()), missed, 100 * float(precision[column])))
    return sorted(found, key=lambda entry: entry.score)
