"""Taggers on the same labelled images: which labels gained, which lost, and how certain that is."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.data.table import LabelTable
from tagloom.data.tree_labels import with_tree
from tagloom.errors import DataError, ImageError
from tagloom.evaluation.bootstrap import resampled_differences
from tagloom.evaluation.evaluate import evaluate, table_for
from tagloom.metrics import average_precision
from tagloom.notebook import both_ends, html_table
from tagloom.predict.tagger import Tagger
from tagloom.progress import Progress, no_progress
from tagloom.wording import listed

RESAMPLES = 1000
LEAST_POSITIVES = 10
"""Labels with fewer positives get no interval. On simulated pairs of equally good taggers, intervals excluded 0 in 5 to
6 % of the cases with 20 positives, in 6 to 10 % with 10, and in up to 36 % with 2."""


class Interval(NamedTuple):
    """The range of 95 % of the resampled differences, in points."""

    low: float
    high: float


@dataclass(frozen=True)
class Change:
    """A metric of the first tagger and of the second, in percent: the AP of a label, or the mAP of all."""

    name: str
    positives: int
    first: float
    second: float
    interval: Interval | None = None

    @property
    def difference(self) -> float:
        """By how many points the second tagger is better."""
        return self.second - self.first

    @property
    def sure(self) -> bool:
        """Whether the interval of the difference excludes 0."""
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high

    def to_dict(self) -> dict[str, Any]:
        """Give plain data, the interval as a pair or None."""
        interval = None if self.interval is None else list(self.interval)
        return {**asdict(self), "difference": self.difference, "interval": interval, "sure": self.sure}


def _moved(change: Change) -> str:
    """Say how far a measure moved, with its 95 % interval.

    >>> _moved(Change("mAP", 40, 50.0, 52.5, Interval(0.5, 4.0)))
    '50.00 → 52.50 (+2.50, 95 % interval +0.50 to +4.00)'
    """
    interval = (
        "" if change.interval is None else f", 95 % interval {change.interval.low:+.2f} to {change.interval.high:+.2f}"
    )
    return f"{change.first:.2f} → {change.second:.2f} ({change.difference:+.2f}{interval})"


@dataclass(frozen=True)
class Comparison:
    """How two taggers do on the same images.

    Attributes:
        images: How many images both were scored on.
        total: The two mAPs, over the labels in `labels`.
        labels: The change of each label that has a positive, greatest gain first.
        without_positive: Classes without a positive in this table, which cannot be measured.
        only_first: Classes that the second tagger does not know; they are left out.
        only_second: Classes that the first tagger does not know; they are left out.
        broken: Images that could not be read and are not counted.
    """

    images: int
    total: Change
    labels: tuple[Change, ...]
    without_positive: tuple[str, ...] = ()
    only_first: tuple[str, ...] = ()
    only_second: tuple[str, ...] = ()
    broken: tuple[ImageError, ...] = ()

    def gained(self, least: float = 0.0) -> list[Change]:
        """List the labels that are better by more than `least` points, greatest gain first."""
        return [change for change in self.labels if change.difference > least]

    def lost(self, least: float = 0.0) -> list[Change]:
        """List the labels that are worse by more than `least` points, greatest loss first."""
        return [change for change in reversed(self.labels) if change.difference < -least]

    def __repr__(self) -> str:
        counts = f"of {len(self.labels)} labels {len(self.gained())} gained, {len(self.lost())} lost"
        return f"Comparison({self.images} images: mAP {_moved(self.total)}; {counts})"

    def _repr_html_(self) -> str:
        rows = [[change.name, change.positives, _moved(change)] for change in self.labels]
        header = ["label", "positives", "AP"]
        return html_table(f"mAP {_moved(self.total)} on {self.images:,} images", header, both_ends(rows))


def compare_taggers(first: Tagger, second: Tagger, table: LabelTable, **options: Any) -> Comparison:
    """Score two taggers on a table and compare them on the classes they share; options as for `compare_with_first`."""
    (comparison,) = compare_with_first((first, second), table, **options)
    return comparison


def compare_with_first(
    taggers: Sequence[Tagger],
    table: LabelTable,
    *,
    ignore_other_labels: bool = False,
    resamples: int = RESAMPLES,
    progress: Progress = no_progress,
) -> tuple[Comparison, ...]:
    """Score taggers on a table, each once, and compare the first with every other one.

    All comparisons are about the same images and classes: those that every tagger can read and knows.

    Args:
        taggers: The tagger to start from, and those that may be better.
        table: Images with labels; each of its classes must be known to all taggers.
        ignore_other_labels: Leave out labels of the table that a tagger does not know, instead of refusing them.
        resamples: How often the images are drawn again for the intervals; 0 for no intervals.
        progress: Called with images done and images to do, over all taggers.
    """
    shared = shared_classes(*(tagger.classes for tagger in taggers))
    for number, tagger in enumerate(taggers):  # check all before scoring any
        try:
            table_for(tagger, table, ignore_other_labels=ignore_other_labels)
        except DataError as error:
            raise DataError(f"for the {ordinal(number)} tagger, {error}") from error

    def progress_after(before: int) -> Progress:
        return lambda done, total: progress(before + done, len(taggers) * total)

    results = [
        evaluate(tagger, table, ignore_other_labels=ignore_other_labels, progress=progress_after(number * len(table)))
        for number, tagger in enumerate(taggers)
    ]
    rows = reduce(np.intersect1d, [result.rows for result in results])
    scores = [
        result.scores[np.ix_(np.searchsorted(result.rows, rows), _columns(shared, tagger.classes))]
        for result, tagger in zip(results, taggers, strict=True)
    ]
    parents = {child: parent for tagger in taggers for child, parent in tagger.spec.parents.items()}
    common = with_tree(table, parents, classes=shared, on_extra="drop")
    targets, known = common.targets(rows), common.known(rows)
    broken = tuple({error.path: error for result in results for error in result.broken}.values())
    return tuple(
        replace(
            compare_scores(scores[0], other, targets, known, classes=shared, resamples=resamples),
            only_first=_others(taggers[0].classes, shared),
            only_second=_others(tagger.classes, shared),
            broken=broken,
        )
        for other, tagger in zip(scores[1:], taggers[1:], strict=True)
    )


def compare_scores(
    first: NDArray[np.floating],
    second: NDArray[np.floating],
    targets: NDArray[np.integer] | NDArray[np.bool_],
    known: NDArray[np.bool_] | None = None,
    *,
    classes: Sequence[str],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Compare two sets of scores of the same images and classes.

    Args:
        first: `(n, N)` scores of the first tagger; only their order within a class matters.
        second: `(n, N)` scores of the second tagger.
        targets: `(n, N)`, 0 or 1.
        known: `(n, N)` bool; unknown pairs count nowhere.
        classes: The N names.
        resamples: How often the images are drawn again for the intervals; 0 for no intervals.
        seed: Seed of the draws.

    >>> targets = np.array([[1, 1], [0, 0], [1, 0]])
    >>> flat, sharp = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]), np.array([[0.9, 0.3], [0.1, 0.2], [0.7, 0.1]])
    >>> result = compare_scores(flat, sharp, targets, classes=["cat", "dog"])
    >>> [(change.name, round(change.first), round(change.second)) for change in result.labels]
    [('dog', 33, 100), ('cat', 83, 100)]
    """
    precision_a = 100 * average_precision(first, targets, known)
    precision_b = 100 * average_precision(second, targets, known)
    positive = targets.astype(bool) if known is None else targets.astype(bool) & known
    counts = positive.sum(axis=0)
    measured = np.flatnonzero(counts).tolist()
    if not measured:
        raise DataError(
            f"none of the {len(classes)} classes to compare has a positive image, so there is nothing to "
            "compare. Check the table's labels."
        )
    drawn = 100 * resampled_differences(
        first[:, measured],
        second[:, measured],
        positive[:, measured],
        None if known is None else known[:, measured],
        resamples,
        seed,
    )
    labels = [
        Change(classes[column], int(counts[column]), float(before), float(after), _interval(draws, counts[column]))
        for column, before, after, draws in zip(
            measured, precision_a[measured], precision_b[measured], drawn, strict=True
        )
    ]
    total = Change(
        "mAP",
        int(counts.sum()),
        float(precision_a[measured].mean()),
        float(precision_b[measured].mean()),
        _interval(_mean_over_labels(drawn), counts.sum()),
    )
    return Comparison(
        images=len(targets),
        total=total,
        labels=tuple(sorted(labels, key=lambda change: -change.difference)),
        without_positive=tuple(name for name, count in zip(classes, counts, strict=True) if not count),
    )


def shared_classes(first: Sequence[str], *others: Sequence[str]) -> tuple[str, ...]:
    """List the classes that all taggers share, in the first one's order. To share none is an error."""
    shared = tuple(first)
    for number, classes in enumerate(others, start=1):
        wanted = set(classes)
        shared = tuple(name for name in shared if name in wanted)
        if not shared:
            raise DataError(
                f"the {ordinal(number)} tagger shares no class with those before it, so there is nothing to compare: "
                f"the first knows {listed(map(repr, first), 3)}; the {ordinal(number)} knows "
                f"{listed(map(repr, classes), 3)}. Name taggers for the same labels, spelt alike."
            )
    return shared


def ordinal(number: int) -> str:
    """Say which tagger it is, counted from 0.

    >>> ordinal(0), ordinal(2), ordinal(11)
    ('first', 'third', '12th')
    """
    words = ("first", "second", "third", "fourth", "fifth")
    return words[number] if number < len(words) else f"{number + 1}th"


def _mean_over_labels(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average differences over the labels that have a positive in each resample: `(labels, R)` to `(R,)`."""
    present = ~np.isnan(drawn)
    means: NDArray[np.float64] = np.where(present, drawn, 0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    return means


def _interval(draws: NDArray[np.float64], positives: int) -> Interval | None:
    valid = draws[~np.isnan(draws)]
    if positives < LEAST_POSITIVES or not len(valid):
        return None
    low, high = np.quantile(valid, (0.025, 0.975)).tolist()
    return Interval(low, high)


def _columns(names: Sequence[str], classes: Sequence[str]) -> NDArray[np.intp]:
    column_of = {name: column for column, name in enumerate(classes)}
    return np.array([column_of[name] for name in names], np.intp)


def _others(classes: Sequence[str], shared: Iterable[str]) -> tuple[str, ...]:
    known = set(shared)
    return tuple(name for name in classes if name not in known)
