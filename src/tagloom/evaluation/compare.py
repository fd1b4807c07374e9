"""Two taggers on the same labelled images: which labels gained, which lost, and how sure that is.

The view is that of multi-task learning (HSQ, section 4.3): a change that lifts one label at the cost of another has
moved performance about rather than added to it, so labels are also looked at in pairs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.data.table import LabelTable
from tagloom.errors import DataError, ImageError, TagloomError, unknown_name
from tagloom.evaluation.bootstrap import resampled_differences
from tagloom.evaluation.evaluate import evaluate
from tagloom.metrics import average_precision
from tagloom.notebook import both_ends, html_table
from tagloom.predict.tagger import Tagger
from tagloom.progress import Progress, no_progress

RESAMPLES = 1000
LEAST_POSITIVES = 10
"""With fewer positives a label gets no interval. On simulated pairs of taggers that are equally good, intervals left
out 0 in 5 to 6 % of the cases with 20 positives, 6 to 10 % with 10, and up to 36 % with 2."""


class Interval(NamedTuple):
    """Where 95 % of the resampled differences lie, in points."""

    low: float
    high: float


@dataclass(frozen=True)
class Change:
    """A measure of the first tagger and of the second, in percent: the AP of a label, or the mAP of all."""

    name: str
    positives: int
    first: float
    second: float
    interval: Interval | None = None

    @property
    def difference(self) -> float:
        """Points that the second tagger is better by."""
        return self.second - self.first

    @property
    def sure(self) -> bool:
        """Whether the interval of the difference leaves out 0."""
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high

    def to_dict(self) -> dict[str, Any]:
        """Plain data, the interval as a pair or None."""
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
    """What two taggers scored on the same images.

    Attributes:
        images: How many images both were scored on.
        total: The two mAPs, over the labels in `labels`.
        labels: One change per label that has a positive, the greatest gain first.
        without_positive: Classes that could not be measured on this table.
        only_first: Classes that the second tagger does not know; they count nowhere.
        only_second: Classes that the first tagger does not know; they count nowhere.
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
        """Labels that are better by more than `least` points, the greatest gain first."""
        return [change for change in self.labels if change.difference > least]

    def lost(self, least: float = 0.0) -> list[Change]:
        """Labels that are worse by more than `least` points, the greatest loss first."""
        return [change for change in reversed(self.labels) if change.difference < -least]

    def __repr__(self) -> str:
        counts = f"of {len(self.labels)} labels {len(self.gained())} gained, {len(self.lost())} lost"
        return f"Comparison({self.images} images: mAP {_moved(self.total)}; {counts})"

    def _repr_html_(self) -> str:
        rows = [[change.name, change.positives, _moved(change)] for change in self.labels]
        header = ["label", "positives", "AP"]
        return html_table(f"mAP {_moved(self.total)} on {self.images:,} images", header, both_ends(rows))


@dataclass(frozen=True)
class PairCounts:
    """How all pairs of labels moved.

    Attributes:
        improved: Both labels gained.
        worsened: Both labels lost.
        apart: One gained and the other lost.
        unmoved: At least one of the two neither gained nor lost.
    """

    improved: int
    worsened: int
    apart: int
    unmoved: int


@dataclass(frozen=True)
class Gap:
    """Two labels that should fare alike, in both taggers; all in percent.

    Attributes:
        labels: The two labels.
        first: Their APs in the first tagger.
        second: Their APs in the second tagger.
    """

    labels: tuple[str, str]
    first: tuple[float, float]
    second: tuple[float, float]

    @property
    def widths(self) -> tuple[float, float]:
        """How far the two APs lie apart, in the first tagger and in the second."""
        return abs(self.first[0] - self.first[1]), abs(self.second[0] - self.second[1])


def compare_taggers(
    first: Tagger,
    second: Tagger,
    table: LabelTable,
    *,
    ignore_other_labels: bool = False,
    resamples: int = RESAMPLES,
    progress: Progress = no_progress,
) -> Comparison:
    """Score two taggers on a table and compare them on the classes they share.

    Args:
        first: The tagger to start from.
        second: The tagger that may be better.
        table: Images with labels; each of its classes must be known to both taggers.
        ignore_other_labels: Leave out labels of the table that a tagger does not know, instead of refusing them.
        resamples: How often the images are drawn anew for the intervals; 0 for none.
        progress: Called with images done and images to do, over both taggers.
    """
    shared = shared_classes(first.classes, second.classes)
    for which, tagger in (("first", first), ("second", second)):  # now, and not when the first is scored already
        try:
            table.with_classes(tagger.classes, on_extra="drop" if ignore_other_labels else "error")
        except DataError as error:
            raise DataError(f"for the {which} tagger, {error}") from error

    def told_after(before: int) -> Progress:
        return lambda done, total: progress(before + done, 2 * total)

    run_a = evaluate(first, table, ignore_other_labels=ignore_other_labels, progress=told_after(0))
    run_b = evaluate(second, table, ignore_other_labels=ignore_other_labels, progress=told_after(len(table)))
    rows = np.intersect1d(run_a.rows, run_b.rows)
    common = table.with_classes(shared, on_extra="drop")
    result = compare_scores(
        run_a.scores[np.ix_(np.searchsorted(run_a.rows, rows), _places(shared, first.classes))],
        run_b.scores[np.ix_(np.searchsorted(run_b.rows, rows), _places(shared, second.classes))],
        common.targets(rows),
        common.known(rows),
        classes=shared,
        resamples=resamples,
    )
    return replace(
        result,
        only_first=_others(first.classes, shared),
        only_second=_others(second.classes, shared),
        broken=tuple({error.path: error for error in (*run_a.broken, *run_b.broken)}.values()),
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
        known: `(n, N)` bool; pairs that are not known count nowhere.
        classes: The N names.
        resamples: How often the images are drawn anew for the intervals; 0 for none.
        seed: Chooses the draws.

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
            f"none of the {len(classes)} classes that are compared has a positive image, so there is nothing to "
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


def shared_classes(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """The classes that two taggers share, in the first one's order; it is an error when there are none."""
    wanted = set(second)
    shared = tuple(name for name in first if name in wanted)
    if not shared:
        raise DataError(
            f"the two taggers share no class, so there is nothing to compare: the first knows {_few(first)}; the "
            f"second knows {_few(second)}. Name two taggers for the same labels, spelt alike."
        )
    return shared


def count_pairs(comparison: Comparison, least: float = 0.0) -> PairCounts:
    """Count how the pairs of labels moved; a move of at most `least` points is none.

    >>> labels = [Change(str(place), 9, 50.0, 50.0 + gain) for place, gain in enumerate((4, 3, 1, 0, -2))]
    >>> count_pairs(Comparison(9, Change("mAP", 45, 50.0, 51.2), tuple(labels)))
    PairCounts(improved=3, worsened=0, apart=3, unmoved=4)
    """
    every, up, down = len(comparison.labels), len(comparison.gained(least)), len(comparison.lost(least))
    moved = up + down
    return PairCounts(
        improved=up * (up - 1) // 2,
        worsened=down * (down - 1) // 2,
        apart=up * down,
        unmoved=(every * (every - 1) - moved * (moved - 1)) // 2,
    )


def improved_pairs(comparison: Comparison, count: int, least: float = 0.0) -> list[tuple[Change, Change]]:
    """The pairs of labels that improved together most, by the smaller of their two gains."""
    gained = comparison.gained(least)  # the greatest first, so the later of two labels has the smaller gain
    pairs = ((gained[better], worse) for place, worse in enumerate(gained) for better in range(place))
    return list(islice(pairs, count))


def read_pair(text: str, classes: Sequence[str]) -> tuple[str, str]:
    """Read two labels with a comma between them; a label may hold commas itself.

    >>> read_pair("cow, horse", ["cow", "horse", "sheep"])
    ('cow', 'horse')
    """
    known = set(classes)
    parts = text.split(",")
    splits = [(",".join(parts[:place]).strip(), ",".join(parts[place:]).strip()) for place in range(1, len(parts))]
    if not splits or "" in splits[0]:
        raise TagloomError(f"--gap {text}: write two labels with a comma between them, for example --gap cow,horse")
    pair = next((pair for pair in splits if known.issuperset(pair)), splits[0])
    if wrong := [name for name in pair if name not in known]:
        raise DataError(f"--gap {text}: {unknown_name('label', wrong[0], classes)}")
    if pair[0] == pair[1]:
        raise TagloomError(f"--gap {text}: is one label twice; name two different ones.")
    return pair


def cross_label_gaps(comparison: Comparison, pairs: Iterable[tuple[str, str]]) -> list[Gap]:
    """The gaps between pairs of labels (HSQ, Figures 3 and 4); pairs with a label without a positive are left out."""
    change_of = {change.name: change for change in comparison.labels}
    found = [(change_of[one], change_of[two]) for one, two in pairs if one in change_of and two in change_of]
    return [
        Gap((one.name, two.name), first=(one.first, two.first), second=(one.second, two.second)) for one, two in found
    ]


def comparison_to_dict(
    comparison: Comparison, gaps: Sequence[Gap] = (), *, least: float = 0.0, pairs: int = 10
) -> dict[str, Any]:
    """Everything about a comparison as plain data that JSON can hold."""
    return {
        "images": comparison.images,
        "mAP": comparison.total.to_dict(),
        "labels": [change.to_dict() for change in comparison.labels],
        "least": least,
        "gained": [change.name for change in comparison.gained(least)],
        "lost": [change.name for change in comparison.lost(least)],
        "pairs": asdict(count_pairs(comparison, least)),
        "improved_together": [
            {"labels": [one.name, two.name], "gains": [one.difference, two.difference]}
            for one, two in improved_pairs(comparison, pairs, least)
        ],
        "gaps": [{**asdict(gap), "widths": gap.widths} for gap in gaps],
        "without_positive": comparison.without_positive,
        "only_first": comparison.only_first,
        "only_second": comparison.only_second,
        "broken": [str(error) for error in comparison.broken],
    }


def _mean_over_labels(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    """The difference of mAP in each resample, over the labels that have a positive there: `(labels, R)` to `(R,)`."""
    present = ~np.isnan(drawn)
    means: NDArray[np.float64] = np.where(present, drawn, 0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    return means


def _interval(draws: NDArray[np.float64], positives: int) -> Interval | None:
    valid = draws[~np.isnan(draws)]
    if positives < LEAST_POSITIVES or not len(valid):
        return None
    low, high = np.quantile(valid, (0.025, 0.975)).tolist()
    return Interval(low, high)


def _places(names: Sequence[str], classes: Sequence[str]) -> NDArray[np.intp]:
    place_of = {name: place for place, name in enumerate(classes)}
    return np.array([place_of[name] for name in names], np.intp)


def _others(classes: Sequence[str], shared: Iterable[str]) -> tuple[str, ...]:
    known = set(shared)
    return tuple(name for name in classes if name not in known)


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(map(repr, names[:3])) + more
