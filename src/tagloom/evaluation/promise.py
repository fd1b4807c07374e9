"""What a promise is based on, counted on a table, and whether it holds on another one."""

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tagloom.data.table import LabelTable
from tagloom.errors import ImageError
from tagloom.evaluation.evaluate import Evaluation, evaluate, table_for
from tagloom.evaluation.findings import count_tags
from tagloom.predict.tagger import Tagger
from tagloom.progress import Progress, no_progress
from tagloom.scoring.promise import HeldOutCounts, count_held_out
from tagloom.scoring.tags import TagRule


class Counted(NamedTuple):
    """Counts to promise from, and the images that could not be read."""

    counts: HeldOutCounts
    broken: list[ImageError]


def count_on(tagger: Tagger, table: LabelTable, *, progress: Progress = no_progress) -> Counted:
    """Count what a tagger can promise from on a table of images that it has not learned from.

    Labels that the tagger does not know are left out. Of its labels that the table lacks, nothing can be promised.
    """
    result = evaluate(tagger, table, ignore_other_labels=True, progress=progress)
    labels = table_for(tagger, table, ignore_other_labels=True)
    counts = count_held_out(result.scores, labels.positive[result.rows], labels.known_pairs(result.rows))
    return Counted(counts, result.broken)


class Kept(NamedTuple):
    """Whether a promise holds on a table.

    Attributes:
        promised: How many labels it was given for.
        measured: Of these, how many have a tag (for precision) or a positive (for recall), so that it can be measured.
        kept: How many of those keep it.
        values: The measured precision or recall of each label, (N,), from 0 to 1; NaN where there is none.
    """

    promised: int
    measured: int
    kept: int
    values: NDArray[np.float64]

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain data."""
        values = [None if np.isnan(value) else float(value) for value in self.values]
        return {"promised": self.promised, "measured": self.measured, "kept": self.kept, "values": values}


def check_promise(
    result: Evaluation,
    tagger: Tagger,
    table: LabelTable,
    rule: TagRule,
    *,
    precision: float | None = None,
    recall: float | None = None,
    ignore_other_labels: bool = False,
) -> Kept:
    """Compare a promise with what is true on an evaluated table.

    Args:
        result: The evaluation.
        tagger: The tagger.
        table: The evaluated table.
        rule: The rule that gave the promise.
        precision: The precision promised.
        recall: The recall promised.
        ignore_other_labels: As in the evaluation.
    """
    limits = cast(NDArray[np.float32], rule.limits)  # a promise sets them
    labels = table_for(tagger, table, ignore_other_labels=ignore_other_labels)
    counts = count_tags(result.scores, labels.positive[result.rows], labels.known_pairs(result.rows), limits)
    right = counts.right
    among = right + (counts.wrong if recall is None else counts.missed)
    promised = np.array([name not in rule.left_out for name in tagger.classes])
    wanted = precision if recall is None else recall
    with np.errstate(invalid="ignore"):
        values = np.where(promised & (among > 0), right / among, np.nan)
    kept = int((values >= wanted).sum())
    return Kept(int(promised.sum()), int((~np.isnan(values)).sum()), kept, values)
