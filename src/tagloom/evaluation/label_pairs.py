"""Labels in pairs: which improved together, which at each other's cost, and how far apart two labels are.

This is the view of multi-task learning (HSQ, section 4.3): a change that improves one label at the cost of another has
shifted performance, not added to it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from tagloom.errors import DataError, TagloomError, unknown_name
from tagloom.evaluation.compare import Change, Comparison


@dataclass(frozen=True)
class PairCounts:
    """How all pairs of labels changed.

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
    """Two labels that should do equally well, in both taggers; all in percent.

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
        """The distance between the two APs, in the first tagger and in the second."""
        return abs(self.first[0] - self.first[1]), abs(self.second[0] - self.second[1])


def count_pairs(comparison: Comparison, least: float = 0.0) -> PairCounts:
    """Count how the pairs of labels changed; a change of at most `least` points is no change.

    >>> labels = [Change(str(number), 9, 50.0, 50.0 + gain) for number, gain in enumerate((4, 3, 1, 0, -2))]
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
    """List the pairs of labels that improved most together, by the smaller of their two gains."""
    gained = comparison.gained(least)  # greatest first, so the later of two labels has the smaller gain
    pairs = ((better, worse) for index, worse in enumerate(gained) for better in gained[:index])
    return list(islice(pairs, count))


def read_pair(text: str, classes: Sequence[str]) -> tuple[str, str]:
    """Read two labels separated by a comma; a label may itself contain commas.

    >>> read_pair("cow, horse", ["cow", "horse", "sheep"])
    ('cow', 'horse')
    """
    known = set(classes)
    parts = text.split(",")
    splits = [(",".join(parts[:comma]).strip(), ",".join(parts[comma:]).strip()) for comma in range(1, len(parts))]
    if not splits or "" in splits[0]:
        raise TagloomError(f"--gap {text}: give two labels separated by a comma, for example --gap cow,horse")
    pair = next((pair for pair in splits if known.issuperset(pair)), splits[0])
    if wrong := [name for name in pair if name not in known]:
        raise DataError(f"--gap {text}: {unknown_name('label', wrong[0], classes)}")
    if pair[0] == pair[1]:
        raise TagloomError(f"--gap {text}: names one label twice; name two different labels.")
    return pair


def cross_label_gaps(comparison: Comparison, pairs: Iterable[tuple[str, str]]) -> list[Gap]:
    """Give the gaps between pairs of labels (HSQ, Figures 3 and 4), without pairs in which a label has no positive."""
    change_of = {change.name: change for change in comparison.labels}
    found = [(change_of[one], change_of[two]) for one, two in pairs if one in change_of and two in change_of]
    return [
        Gap((one.name, two.name), first=(one.first, two.first), second=(one.second, two.second)) for one, two in found
    ]
