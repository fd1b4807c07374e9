"""Everything that a report shows, measured."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tagloom.data.table import LabelTable, Pairs
from tagloom.evaluation.evaluate import Evaluation, evaluate
from tagloom.evaluation.findings import (
    Company,
    Counts,
    HardImage,
    Moved,
    Suspect,
    count_tags,
    errors_in_company,
    hardest_images,
    move_thresholds,
    suspicious_labels,
)
from tagloom.metrics.blocks import Known
from tagloom.predict.tagger import Tagger
from tagloom.progress import Progress, no_progress
from tagloom.recipe.parts import MAX_BROKEN_SHARE
from tagloom.tagger.spec import ONNX_FILE, WEIGHTS_FILE

LOG_FILE = "log.jsonl"
MAX_LOG_BYTES = 64 * 1024 * 1024
SHOWN_IMAGES = 12
SHOWN_PAIRS = 30
MOVES = np.arange(-6, 7) / 20


@dataclass(frozen=True)
class Facts:
    """What was measured of a tagger on a table.

    Attributes:
        tagger: The tagger.
        table: The images that could be read, with the tagger's classes.
        result: What `tagloom evaluate` gives.
        targets: (n, N), the positive pairs.
        known: (n, N), the known pairs; None if all are known.
        counts: Right, wrong and missed tags of each class.
        moved: What moving all thresholds would cost.
        company: Wrong tags by the true labels they come with.
        hard: The hardest images.
        missing: Labels that look missing in the table.
        wrong: Labels of the table that look wrong.
        epochs: The epochs of its training, from the log; empty without one.
        sizes: Bytes of its files, by name.
        images_per_second: How fast it was here, reading included.
    """

    tagger: Tagger
    table: LabelTable
    result: Evaluation
    targets: Pairs
    known: Known
    counts: Counts
    moved: list[Moved]
    company: list[Company]
    hard: list[HardImage]
    missing: list[Suspect]
    wrong: list[Suspect]
    epochs: list[dict[str, Any]]
    sizes: dict[str, int]
    images_per_second: float


def gather(
    tagger: Tagger,
    table: LabelTable,
    folder: Path,
    *,
    max_broken: float = MAX_BROKEN_SHARE,
    ignore_other_labels: bool = False,
    progress: Progress = no_progress,
) -> Facts:
    """Score a table and measure everything.

    Args:
        tagger: The tagger.
        table: Images with labels.
        folder: The tagger's folder; its log and the sizes of its files are read.
        max_broken: The largest share of unreadable images to accept.
        ignore_other_labels: Leave out labels that the tagger does not know, instead of refusing them.
        progress: Called with images done and images to do.
    """
    started = time.perf_counter()
    result = evaluate(tagger, table, max_broken=max_broken, ignore_other_labels=ignore_other_labels, progress=progress)
    seconds = time.perf_counter() - started
    table = table.with_classes(tagger.classes, on_extra="drop" if ignore_other_labels else "error").select(result.rows)
    targets, known, scores = table.positive, table.known_pairs(slice(None)), result.scores
    thresholds = tagger.spec.threshold_row()
    missing, wrong = suspicious_labels(scores, targets, known, SHOWN_IMAGES)
    return Facts(
        tagger=tagger,
        table=table,
        result=result,
        targets=targets,
        known=known,
        counts=count_tags(scores, targets, known, thresholds),
        moved=move_thresholds(scores, targets, known, thresholds, MOVES),
        company=errors_in_company(scores, targets, known, thresholds, SHOWN_PAIRS),
        hard=hardest_images(scores, targets, known, SHOWN_IMAGES),
        missing=missing,
        wrong=wrong,
        epochs=read_epochs(folder / LOG_FILE),
        sizes={name: (folder / name).stat().st_size for name in (ONNX_FILE, WEIGHTS_FILE) if (folder / name).is_file()},
        images_per_second=len(table) / max(seconds, 1e-9),
    )


def read_epochs(path: Path) -> list[dict[str, Any]]:
    """Read the epochs of a training from its log; a folder without a log, or with a strange one, has none."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_LOG_BYTES:
            return []
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    epochs: dict[float, dict[str, Any]] = {}
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and entry.get("event") == "epoch" and _is_number(entry.get("epoch")):
            epochs[entry["epoch"]] = {name: value for name, value in entry.items() if _is_number(value)}
    return [epochs[number] for number in sorted(epochs)]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
