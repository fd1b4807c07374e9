"""How labels are spelt: as readable text, and the nearest known spelling of one that is not found."""

import unicodedata
from collections.abc import Collection, Iterable
from difflib import get_close_matches

NEAR_CANDIDATES = 20_000  # the usual files list the most frequent words first, so later ones are rarely meant


def readable(label: str) -> str:
    """Write a label as people would: `fire_hydrant` means two words.

    >>> readable(" fire_hydrant ")
    'fire hydrant'
    """
    return " ".join(label.replace("_", " ").split())


def folded(label: str) -> str:
    """Write a label in lower case, without accents and hyphens, for comparing.

    >>> folded("Café_au-lait")
    'cafe au lait'
    """
    plain = unicodedata.normalize("NFKD", readable(label.replace("-", " ")).casefold())
    return "".join(letter for letter in plain if not unicodedata.combining(letter))


def forms_of(label: str) -> list[str]:
    """List how a word list may spell a label: folded, and in the singular.

    >>> forms_of("Cherries"), forms_of("glass")
    (['cherries', 'cherrie', 'cherri', 'cherry'], ['glass'])
    """
    whole = folded(label)
    endings = (("s", ""), ("es", ""), ("ies", "y"), ("ves", "f"))
    plural = whole.endswith("s") and not whole.endswith("ss")
    return [whole, *(whole.removesuffix(end) + instead for end, instead in endings if plural and whole.endswith(end))]


def with_nearest(words: Collection[str], known: Iterable[str]) -> dict[str, str]:
    """Quote each word, followed by the known word that is spelt most similarly, if there is one.

    Only words with the same first letter and about the same length are compared, so that the list may be long.

    >>> with_nearest(["surfbord", "xyzzy"], ["sea", "surfboard", "surf"])
    {'surfbord': "'surfbord' (nearest: 'surfboard')", 'xyzzy': "'xyzzy'"}
    """
    similar: dict[str, list[str]] = {word: [] for word in words}
    for other in known:
        for word, candidates in similar.items():
            near = other[:1].casefold() == word[:1].casefold() and abs(len(other) - len(word)) <= 2
            if near and len(candidates) < NEAR_CANDIDATES:
                candidates.append(other)
    quoted = {}
    for word, candidates in similar.items():
        best = get_close_matches(word.casefold(), candidates, n=1)
        quoted[word] = f"{word!r} (nearest: {best[0]!r})" if best else repr(word)
    return quoted
