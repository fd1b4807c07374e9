"""The best and the worst tenth of the classes in several taggers: whether all find the same classes hard."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom.data.table import LabelTable
from tagloom.errors import DataError, ImageError
from tagloom.evaluation.compare import shared_classes
from tagloom.evaluation.evaluate import evaluate
from tagloom.predict.tagger import Tagger
from tagloom.progress import Progress, no_progress


@dataclass(frozen=True)
class Tenths:
    """The average precision of all classes in several taggers.

    Attributes:
        classes: Classes that all taggers know and that have a positive, in the order of the first tagger.
        positives: How many images have each.
        precision: (taggers, classes), AP in percent.
        broken: Images that a tagger could not read; it is not measured on them.
    """

    classes: tuple[str, ...]
    positives: tuple[int, ...]
    precision: NDArray[np.float64]
    broken: list[ImageError]

    @property
    def size(self) -> int:
        """How many classes are a tenth; at least one."""
        return max(1, round(len(self.classes) / 10))

    def members(self, best: bool) -> NDArray[np.bool_]:
        """Say which classes are in the best (or worst) tenth of each tagger, (taggers, classes)."""
        found = np.zeros(self.precision.shape, bool)
        for tagger, row in enumerate(self.precision):
            found[tagger, np.argsort(-row if best else row, kind="stable")[: self.size]] = True
        return found

    def columns(self, best: bool) -> list[int]:
        """List the classes in the best (or worst) tenth of any tagger: those that most share first, then by mean AP."""
        times, mean = self.members(best).sum(axis=0), self.precision.mean(axis=0)
        chosen = np.flatnonzero(times).tolist()
        return sorted(chosen, key=lambda column: (-times[column], -mean[column] if best else mean[column]))

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain data."""
        ends = {
            name: [
                {
                    "class": self.classes[column],
                    "positives": self.positives[column],
                    "AP": self.precision[:, column].tolist(),
                    "in_tenth_of": int(self.members(best)[:, column].sum()),
                }
                for column in self.columns(best)
            ]
            for name, best in (("best", True), ("worst", False))
        }
        return {"size": self.size, **ends}


def class_tenths(
    taggers: Sequence[Tagger],
    table: LabelTable,
    *,
    ignore_other_labels: bool = False,
    progress: Progress = no_progress,
) -> Tenths:
    """Measure the average precision of every class in several taggers.

    Args:
        taggers: The taggers.
        table: Images with labels.
        ignore_other_labels: Leave out labels that a tagger does not know, instead of refusing them.
        progress: Called with images done and images to do, over all taggers.
    """
    shared = shared_classes(*(tagger.classes for tagger in taggers))
    rows, broken = [], {}
    for number, tagger in enumerate(taggers):

        def told(done: int, total: int, before: int = number * len(table)) -> None:
            progress(before + done, len(taggers) * total)

        result = evaluate(tagger, table, ignore_other_labels=ignore_other_labels, progress=told)
        own = dict(zip(tagger.classes, result.metrics["AP"], strict=True))
        rows.append([np.nan if own[name] is None else own[name] for name in shared])
        broken.update({error.path: error for error in result.broken})
    precision = np.array(rows, np.float64)
    measured = np.flatnonzero(~np.isnan(precision).any(axis=0))
    if not len(measured):
        raise DataError(f"{table.source}: none of the classes has a positive image. Check the table's labels.")
    common = table.with_classes(shared, on_extra="drop")
    counts = np.asarray(common.positive.sum(axis=0)).ravel()
    return Tenths(
        classes=tuple(shared[column] for column in measured),
        positives=tuple(int(counts[column]) for column in measured),
        precision=precision[:, measured],
        broken=list(broken.values()),
    )
