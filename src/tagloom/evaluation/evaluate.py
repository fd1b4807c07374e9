"""Scoring a tagger on a labelled table."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom.data.reading import check_broken
from tagloom.data.table import LabelTable
from tagloom.errors import ImageError
from tagloom.labels.split import LabelSplit
from tagloom.metrics import zero_shot_score
from tagloom.notebook import headline, html_table, metrics_html
from tagloom.predict.tagger import Tagger
from tagloom.progress import Progress, no_progress
from tagloom.recipe.parts import MAX_BROKEN_SHARE
from tagloom.scoring.calibration import to_scores
from tagloom.scoring.measure import measure_scores


@dataclass(frozen=True)
class Evaluation:
    """What a tagger scored.

    Attributes:
        metrics: The dict of `tagloom.metrics.score`; for single-label taggers with "top1".
        rows: Rows of the table that could be read, (n,).
        scores: Their probabilities, (n, N).
        broken: Images that could not be read and are not counted.
        calibration: `tagloom.metrics.calibration_figures` of the scores as the network gives them ("before") and, of
            a calibrated tagger, as they are used ("after"); empty of a split.
        classes: Label names, in the order of the scores.
    """

    metrics: dict[str, Any]
    rows: NDArray[np.int64]
    scores: NDArray[np.float32]
    broken: list[ImageError]
    calibration: dict[str, dict[str, Any]] = field(default_factory=dict)
    classes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        parts = [f"{part} {headline(metrics)}" for part, metrics in self.metrics.items()] if self._is_split else []
        extent = f"{self.scores.shape[1]} classes, {len(self.rows)} images"
        return f"Evaluation({extent}: {'; '.join(parts) or headline(self.metrics)})"

    def _repr_html_(self) -> str:
        if not self._is_split:
            return metrics_html("Evaluation", self.metrics, self.classes)
        rows = [
            [part, len(found["columns"]), *(found[name] for name in ("mAP", "F1@3", "F1@5"))]
            for part, found in self.metrics.items()
        ]
        return html_table("Zero-shot", ["scored", "labels", "mAP", "F1@3", "F1@5"], rows)

    @property
    def _is_split(self) -> bool:
        return "ZSL" in self.metrics


def evaluate(
    tagger: Tagger,
    table: LabelTable,
    *,
    threshold: float | None = None,
    top_k: int = 3,
    max_broken: float = MAX_BROKEN_SHARE,
    ignore_other_labels: bool = False,
    progress: Progress = no_progress,
) -> Evaluation:
    """Score a tagger on a table, in the tagger's order of classes.

    Args:
        tagger: The tagger.
        table: Images with labels; each of its classes must be one of the tagger's.
        threshold: One threshold for all classes; by default the tagger's own.
        top_k: How many labels per image the `_top…` figures allow.
        ignore_other_labels: Leave out labels of the table that the tagger does not know, instead of refusing them.
        max_broken: Above this share of unreadable images it is an error.
        progress: Called with images done and images to do.
    """
    table = table.with_classes(tagger.classes, on_extra="drop" if ignore_other_labels else "error")
    rows, logits, broken = _run(tagger, table, max_broken, progress)
    metrics, calibration = measure_scores(
        logits,
        table.targets(rows),
        table.known(rows),
        threshold=tagger.spec.threshold_row() if threshold is None else threshold,
        top_k=top_k,
        task=tagger.spec.task,
        activation=tagger.spec.activation,
        calibration=tagger.spec.calibration,
    )
    return Evaluation(metrics, rows, tagger.to_scores(logits), broken, calibration, tagger.classes)


def evaluate_split(
    tagger: Tagger,
    table: LabelTable,
    split: LabelSplit,
    *,
    max_broken: float = MAX_BROKEN_SHARE,
    progress: Progress = no_progress,
) -> Evaluation:
    """Score a tagger on labels that it was trained on and labels that it was not, as zero-shot papers do.

    Args:
        tagger: One that takes any labels, or that has all of these among its classes.
        table: Images with labels. What it lacks of the split's labels is absent from all its images, or unknown where
            the table says only what is known; what it has beside them is left out.
        split: Which labels are seen and which unseen.
        max_broken: Above this share of unreadable images it is an error.
        progress: Called with images done and images to do.

    Returns:
        Metrics are the dict of `tagloom.metrics.zero_shot_score`, its columns being those of seen and then unseen
        labels, as are those of the scores. They are of scores before calibration: one that differs by label would
        change which labels of an image are its best.
    """
    labels = (*split.seen, *split.unseen)
    asked = tagger if set(labels) <= set(tagger.classes) else tagger.with_labels(labels)
    columns = [asked.classes.index(label) for label in labels]
    table = table.with_classes(labels, on_missing=table.unlisted, on_extra="drop")
    rows, logits, broken = _run(asked, table, max_broken, progress)
    ranked = to_scores(logits, asked.spec.activation)[:, columns]
    unseen = range(len(split.seen), len(labels))
    metrics = zero_shot_score(ranked, table.targets(rows), unseen, table.known(rows))
    return Evaluation(metrics, rows, asked.to_scores(logits)[:, columns], broken, classes=labels)


def trained_labels(tagger: Tagger) -> set[str]:
    """Give the labels that a tagger was trained on: its classes that had a positive image."""
    return set(tagger.spec.classes) - set(tagger.spec.data.get("classes_without_positive") or [])


def _run(
    tagger: Tagger, table: LabelTable, max_broken: float, progress: Progress
) -> tuple[NDArray[np.int64], NDArray[np.float32], list[ImageError]]:
    """Give the rows of a table that could be read, their logits (n, N), and the images that could not."""
    logits = np.zeros((len(table), len(tagger.classes)), np.float32)
    broken: list[tuple[int, ImageError]] = []
    for row, result in tagger.stream_logits(table.path(row) for row in range(len(table))):
        if isinstance(result, ImageError):
            broken.append((row, result))
        else:
            logits[row] = result
        progress(row + 1, len(table))
    check_broken(broken, len(table), max_broken, table.source, "max_broken=0.2 (tagloom evaluate … --max-broken 0.2)")
    rows = np.setdiff1d(np.arange(len(table)), [row for row, _ in broken])
    return rows, logits[rows], [error for _, error in broken]
