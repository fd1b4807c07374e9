"""Doubts about the labels of a table, ready to be gone through: as rows of a CSV file with a column for answers."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.data.absent import columns_with_few_negatives, presume_negative
from tagloom.data.corrections import pair_fields
from tagloom.data.table import LabelTable
from tagloom.files import whole_file
from tagloom.scoring.calibration import Activation, to_scores
from tagloom.scoring.calibration_fit import Kind, fit_calibration
from tagloom.scoring.doubts import ClassDoubts, find_doubts

SAID = {True: "yes", False: "no"}


class Doubt(NamedTuple):
    """A label that looks wrong, or one that looks missing.

    Attributes:
        row: The image's row in the table.
        label: The label.
        said: What the table says: "yes", "no" or "unknown".
        score: How likely the image has the label, from a tagger that has not seen it.
        chance: The chance that the table is wrong about it.
    """

    row: int
    label: str
    said: str
    score: float
    chance: float


@dataclass(frozen=True)
class DoubtReport:
    """What looks wrong in a table.

    Attributes:
        table: The table.
        doubts: Worst first.
        classes: The counts of each class, in the table's order.
        unreadable: How many images could not be read.
    """

    table: LabelTable
    doubts: list[Doubt]
    classes: list[ClassDoubts]
    unreadable: int

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain data."""
        doubts = [{"image": self.table.images[doubt.row], **doubt._asdict()} for doubt in self.doubts]
        return {"doubts": doubts, "classes": [found._asdict() for found in self.classes], "unreadable": self.unreadable}


def doubt_labels(
    table: LabelTable, rows: NDArray[np.int64], logits: NDArray[np.float32], *, activation: Activation, count: int
) -> DoubtReport:
    """Rank the labels of a table by doubt.

    Unknown pairs of classes that state hardly any negative are taken for negatives, so that missing labels are found.
    Other unknown pairs are not doubted.

    Args:
        table: The table.
        rows: (n,) the rows that were scored.
        logits: (n, N), from taggers that did not learn from these rows.
        activation: What turns logits into scores.
        count: How many doubts to give, at most.
    """
    chosen = table.select(rows)
    presumed = presume_negative(chosen, columns_with_few_negatives(table))
    everything = np.arange(len(chosen))
    targets, known, stated = presumed.targets(everything), presumed.known(everything), chosen.known(everything)
    kind: Kind = "shared" if activation == "softmax" else "per-class"
    calibration = fit_calibration(logits, targets, known, kind=kind, activation=activation)
    scores = to_scores(logits, activation, calibration)
    found = find_doubts(scores, targets, known, table.classes, count=count)
    doubts = [
        Doubt(
            int(rows[row]),
            table.classes[column],
            SAID[bool(targets[row, column])] if stated[row, column] else "unknown",
            float(scores[row, column]),
            float(chance),
        )
        for row, column, chance in zip(found.rows, found.columns, found.chances, strict=True)
    ]
    return DoubtReport(table, doubts, found.classes, len(table) - len(rows))


def write_doubts(report: DoubtReport, path: Path) -> Path:
    """Write doubts as a CSV file with an empty column `answer`, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "label", "said", "score", "doubt", "answer"])
        for doubt in report.doubts:
            fields = pair_fields(report.table.images[doubt.row], doubt.label)
            writer.writerow([*fields, doubt.said, f"{doubt.score:.4f}", f"{doubt.chance:.4f}", ""])
    return path
