"""Measuring a tagger on a labelled table."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tagloom.data.absent import columns_without_negatives, presume_negative
from tagloom.data.reading import check_broken
from tagloom.data.table import LabelTable
from tagloom.data.tree_labels import with_tree
from tagloom.errors import DataError, ImageError
from tagloom.labels.split import LabelSplit
from tagloom.metrics import zero_shot_score
from tagloom.notebook import headline, html_table, metrics_html
from tagloom.predict.tagger import Tagger
from tagloom.progress import Progress, no_progress
from tagloom.recipe.parts import MAX_BROKEN_SHARE
from tagloom.scoring.calibration import to_scores
from tagloom.scoring.measure import measure_scores
from tagloom.scratch import scratch_array

ScoredImages: TypeAlias = Literal["all", "with-unseen"]
"""Which images a split is scored on."""


@dataclass(frozen=True)
class Evaluation:
    """How good a tagger is on a table.

    Attributes:
        metrics: The dict of `tagloom.metrics.score`; for a tagger with a label tree also "levels",
            for one that knows how many images of each class it learned from also "long_tail".
        rows: Rows of the table that could be read, (n,).
        scores: Their scores, (n, N).
        broken: Images that could not be read and are not counted.
        calibration: `tagloom.metrics.calibration_figures` of the scores before calibration ("before") and, for a
            calibrated tagger, after it ("after"); empty for a split.
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
    threshold: float | NDArray[np.float32] | None = None,
    top_k: int = 3,
    max_broken: float = MAX_BROKEN_SHARE,
    ignore_other_labels: bool = False,
    progress: Progress = no_progress,
) -> Evaluation:
    """Measure a tagger on a labelled table. Classes are in the tagger's order.

    Args:
        tagger: The tagger.
        table: Images with labels; each of its classes must be one of the tagger's.
        threshold: One threshold for all classes, or one for each (N,); by default the tagger's own.
        top_k: How many labels per image the `_top…` metrics allow.
        max_broken: The largest share of unreadable images; more are an error.
        ignore_other_labels: Leave out labels of the table that the tagger does not know, instead of refusing them.
        progress: Called with images done and images to do.
    """
    table = table_for(tagger, table, ignore_other_labels=ignore_other_labels)
    rows, logits, broken = _run(tagger, table, max_broken, progress)
    metrics, calibration = measure_scores(
        logits,
        table.positive[rows],
        table.known_pairs(rows),
        threshold=tagger.spec.threshold_row() if threshold is None else threshold,
        top_k=top_k,
        task=tagger.spec.task,
        activation=tagger.spec.activation,
        calibration=tagger.spec.calibration,
        tree=tagger.spec.tree,
        training_positives=tagger.spec.training_positives,
    )
    return Evaluation(metrics, rows, tagger.to_scores(logits), broken, calibration, tagger.classes)


def evaluate_split(
    tagger: Tagger,
    table: LabelTable,
    split: LabelSplit,
    *,
    score_images: ScoredImages = "all",
    max_broken: float = MAX_BROKEN_SHARE,
    progress: Progress = no_progress,
) -> Evaluation:
    """Measure a tagger on seen and unseen labels, as zero-shot papers do.

    Args:
        tagger: One with word queries, or one that has all of these labels among its classes.
        table: Images with labels. A label of the split that the table lacks is absent from all images, or unknown if
            the table lists only known pairs. Labels that are not in the split are left out.
        split: Which labels are seen and which are unseen.
        score_images: "all", or only those "with-unseen" labels, as ML-Decoder's released code scores NUS-WIDE.
            Their figures are higher: an image without an unseen label can only lower precision.
        max_broken: The largest share of unreadable images; more are an error.
        progress: Called with images done and images to do.

    Returns:
        Metrics are the dict of `tagloom.metrics.zero_shot_score`. Its columns, like those of the scores, are the seen
        labels followed by the unseen ones. Metrics use scores before calibration, because a calibration per label
        would change which labels of an image are best.
    """
    labels = (*split.seen, *split.unseen)
    scorer = tagger if set(labels) <= set(tagger.classes) else tagger.with_labels(labels)
    columns = [scorer.classes.index(label) for label in labels]
    table = table.with_classes(labels, on_missing=table.unlisted, on_extra="drop")
    if score_images == "with-unseen":
        table = _with_unseen(table, len(split.seen))
    rows, logits, broken = _run(scorer, table, max_broken, progress)
    ranked = to_scores(logits, scorer.spec.activation)[:, columns]
    unseen = range(len(split.seen), len(labels))
    metrics = zero_shot_score(ranked, table.positive[rows], unseen, table.known_pairs(rows))
    return Evaluation(metrics, rows, scorer.to_scores(logits)[:, columns], broken, classes=labels)


def _with_unseen(table: LabelTable, first: int) -> LabelTable:
    """Keep the images that have a label among those from column `first` on."""
    rows = np.flatnonzero(np.asarray(table.positive[:, first:].sum(axis=1)).ravel())
    if not len(rows):
        raise DataError(f"{table.source}: no image has an unseen label, so there is nothing to score.")
    return table.select(rows)


def table_for(tagger: Tagger, table: LabelTable, *, ignore_other_labels: bool = False) -> LabelTable:
    """Give a table the tagger's classes, in their order, and complete it by the tagger's label tree.

    Unknown pairs of classes without any known negative count as negatives: such a class would be perfect otherwise.
    """
    on_extra: Literal["error", "drop"] = "drop" if ignore_other_labels else "error"
    complete = with_tree(table, tagger.spec.parents, classes=tagger.classes, on_extra=on_extra)
    return presume_negative(complete, columns_without_negatives(complete))


def trained_labels(tagger: Tagger) -> set[str]:
    """Give the seen labels of a tagger: its classes that had a positive image in training."""
    return set(tagger.spec.classes) - set(tagger.spec.data.get("classes_without_positive") or [])


def _run(
    tagger: Tagger, table: LabelTable, max_broken: float, progress: Progress
) -> tuple[NDArray[np.int64], NDArray[np.float32], list[ImageError]]:
    """Give the rows of a table that could be read, their logits (n, N), and the errors of the others."""
    logits = scratch_array((len(table), len(tagger.classes)), np.float32, Path(tempfile.gettempdir()))
    rows: list[int] = []
    broken: list[tuple[int, ImageError]] = []
    for row, result in tagger.stream_logits(table.image(row) for row in range(len(table))):
        if isinstance(result, ImageError):
            broken.append((row, result))
        else:
            logits[len(rows)] = result
            rows.append(row)
        progress(row + 1, len(table))
    check_broken(broken, len(table), max_broken, table.source, "max_broken=0.2 (tagloom evaluate … --max-broken 0.2)")
    return np.array(rows, np.int64), logits[: len(rows)], [error for _, error in broken]
