"""The images of one class, from the one that the tagger scores highest to the lowest (layover, Figure 4)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tagloom.data.packed.images import ImageFile
from tagloom.data.table import LabelTable
from tagloom.errors import DataError, ImageError, unknown_name
from tagloom.evaluation.evaluate import evaluate
from tagloom.predict.tagger import Tag, Tagger
from tagloom.progress import Progress, no_progress


class RankedImage(NamedTuple):
    """An image that has the class.

    Attributes:
        path: The image.
        score: The score of the class.
        tags: The tagger's tags.
        truth: The image's true labels with their scores, the class first.
    """

    path: ImageFile
    score: float
    tags: list[Tag]
    truth: dict[str, float]


@dataclass(frozen=True)
class ClassRanking:
    """The images of one class by their scores.

    Attributes:
        label: The class.
        positives: How many images have it.
        threshold: The score above which it becomes a tag.
        highest: The images that score highest, highest first.
        lowest: The images that score lowest, lowest first; none of them is among the highest.
        broken: Images that could not be read and are not counted.
    """

    label: str
    positives: int
    threshold: float
    highest: list[RankedImage]
    lowest: list[RankedImage]
    broken: list[ImageError]

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain data."""
        ends = {"highest": self.highest, "lowest": self.lowest}
        images = {name: [{"image": str(one.path), "score": one.score} for one in end] for name, end in ends.items()}
        return {"class": self.label, "positives": self.positives, "threshold": self.threshold, **images}


def rank_class(
    tagger: Tagger,
    table: LabelTable,
    label: str,
    *,
    count: int,
    ignore_other_labels: bool = False,
    progress: Progress = no_progress,
) -> ClassRanking:
    """Score a table, and list the images of a class that score highest and lowest.

    Args:
        tagger: The tagger.
        table: Images with labels.
        label: The class.
        count: How many images to list at either end; fewer if the class has not twice as many.
        ignore_other_labels: Leave out labels that the tagger does not know, instead of refusing them.
        progress: Called with images done and images to do.
    """
    if label not in tagger.classes:
        raise DataError(unknown_name("class", label, tagger.classes))
    column = tagger.classes.index(label)
    chosen = table.with_classes(tagger.classes, on_extra="drop" if ignore_other_labels else "error")
    positive = np.flatnonzero(chosen.targets(np.arange(len(chosen)))[:, column])
    if not len(positive):
        raise DataError(f"{table.source}: no image has the label {label!r}, so there is nothing to rank.")
    chosen = chosen.select(positive)
    result = evaluate(tagger, chosen, progress=progress)
    chosen = chosen.select(result.rows)
    targets, scores = chosen.targets(np.arange(len(chosen))), result.scores
    order = np.argsort(-scores[:, column], kind="stable")
    end = min(count, (len(order) + 1) // 2)

    def ranked(row: int) -> RankedImage:
        true = sorted(np.flatnonzero(targets[row]).tolist(), key=lambda other: other != column)
        truth = {tagger.classes[other]: float(scores[row, other]) for other in true}
        return RankedImage(chosen.image(row), float(scores[row, column]), tagger.tags(scores[row]), truth)

    return ClassRanking(
        label=label,
        positives=len(order),
        threshold=float(tagger.spec.threshold_row()[column]),
        highest=[ranked(int(row)) for row in order[:end]],
        lowest=[ranked(int(row)) for row in order[end:][::-1][:end]],
        broken=result.broken,
    )
