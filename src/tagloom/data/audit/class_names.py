"""Class names that look like mistakes: near duplicates and typos."""

import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

from tagloom.data.audit.findings import FEW_POSITIVES, LikelySlip

_MUCH_MORE_FREQUENT = 5
_ALIKE = 0.8  # one letter in three makes another word ("cat", "car"), one in six is a typo ("person", "persan")
_LONGEST_SPELLING = 100  # nobody types longer names by hand, and the ways to shorten one grow with its length


def name_clashes(classes: Sequence[str]) -> list[list[str]]:
    """Group names that differ only in case, spaces, hyphens, underscores or Unicode normalisation."""
    alike: dict[str, list[str]] = defaultdict(list)
    for name in classes:
        alike[_plain_name(name)].append(name)
    return [names for names in alike.values() if len(names) > 1]


def _plain_name(name: str) -> str:
    words = unicodedata.normalize("NFKC", name).replace("_", " ").replace("-", " ").split()
    return " ".join(words).casefold()


def rare_columns(positives: NDArray[np.int64]) -> list[int]:
    """List the classes with at least one positive, but few."""
    columns: list[int] = np.flatnonzero((positives > 0) & (positives < FEW_POSITIVES)).tolist()
    return columns


def likely_slips(classes: Sequence[str], positives: NDArray[np.int64]) -> list[LikelySlip]:
    """Find rare classes that may be typos, each with the most frequent class that may be meant.

    Two names are one typo apart if they become equal after removing at most one letter from each: a letter was added,
    left out, replaced or swapped with its neighbour. So names are looked up by what remains of them, instead of
    comparing thousands of rare classes with thousands of frequent ones.
    """
    plain = [_plain_name(name) for name in classes]
    frequent: dict[str, list[int]] = defaultdict(list)
    for column in np.flatnonzero(positives >= _MUCH_MORE_FREQUENT).tolist():
        for remainder in _remainders(plain[column]):
            frequent[remainder].append(column)
    found: list[LikelySlip] = []
    for column in rare_columns(positives):
        meant = {
            other
            for remainder in _remainders(plain[column])
            for other in frequent.get(remainder, ())
            if positives[other] >= _MUCH_MORE_FREQUENT * positives[column] and _alike(plain[column], plain[other])
        }
        if meant:
            best = max(meant, key=lambda other: (positives[other], -other))
            found.append(LikelySlip(classes[column], int(positives[column]), classes[best], int(positives[best])))
    return found


def _remainders(name: str) -> set[str]:
    """Give the name, and what remains of it without each of its letters."""
    if len(name) > _LONGEST_SPELLING:
        return set()
    return {name, *(name[:index] + name[index + 1 :] for index in range(len(name)))}


def _alike(name: str, other: str) -> bool:
    """Whether names are nearly the same. Equal ones already count as clashes, and other digits mean another thing."""
    digits, other_digits = ([character for character in text if character.isdigit()] for text in (name, other))
    return (
        name != other
        and digits == other_digits
        and SequenceMatcher(None, name, other, autojunk=False).ratio() >= _ALIKE
    )
