"""What Tagloom notes in a sidecar about its own keywords, in a namespace of its own.

| property | holds |
| --- | --- |
| `tagloom:Tagger` | the tagger that chose the keywords |
| `tagloom:Settings` | a digest of that tagger and how tags were chosen, so that a stopped `write` can continue |
| `tagloom:Date` | when they were written |
| `tagloom:Tags` | each tag with its score: `0.93 Animals|Dog` |
| `tagloom:Added` | each item that was added to a list: `dc:subject Dog`. Only these are ours to take out |
| `tagloom:Created` | each keyword property that the document lacked |
| `tagloom:Expanded` | each list that was written `<rdf:Bag/>` and had to be opened |
| `tagloom:Rejected` | tags that were taken out by somebody, so they are not written again |
| `tagloom:Reviewed` | when somebody looked at all keywords of the photo: those it lacks, it does not show |

The last two are somebody's own word. They stay where they are when our keywords are taken out or written again.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from xml.sax.saxutils import escape

from tagloom.xmp.document import Document
from tagloom.xmp.names import BY_TITLE, TAGLOOM

PREFIX = "tagloom"
OF_A_WRITING = ("Tagger", "Settings", "Date", "Tags", "Added", "Created", "Expanded")
"""The marks that belong to one writing, and go when its keywords are taken out."""
_LISTS = ("Tags", "Added", "Created", "Expanded", "Rejected")
_TEXTS = ("Tagger", "Settings", "Date", "Reviewed")


class ScoredTag(NamedTuple):
    """A tag as a path, `Animals|Dog`, and its score."""

    path: str
    score: float


@dataclass(frozen=True)
class Marks:
    """What a document says about the keywords that Tagloom wrote."""

    tagger: str = ""
    settings: str = ""
    date: str = ""
    reviewed: str = ""
    tags: tuple[ScoredTag, ...] = ()
    added: tuple[tuple[str, str], ...] = ()
    """Property and item, for example ("dc:subject", "Dog")."""
    created: tuple[str, ...] = ()
    expanded: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()

    def of_property(self, title: str) -> set[str]:
        """Give the items that were added to one property."""
        return {item for name, item in self.added if name == title}

    def properties(self) -> list[tuple[str, str | list[str]]]:
        """List what is to be written: the name of each property that is not empty, and its value."""
        values: list[tuple[str, str | list[str]]] = [
            ("Tagger", self.tagger),
            ("Settings", self.settings),
            ("Date", self.date),
            ("Tags", [f"{tag.score:.4f} {tag.path}" for tag in self.tags]),
            ("Added", [f"{name} {item}" for name, item in self.added]),
            ("Created", list(self.created)),
            ("Expanded", list(self.expanded)),
            ("Rejected", list(self.rejected)),
            ("Reviewed", self.reviewed),
        ]
        return [(name, value) for name, value in values if value]


def read_marks(document: Document) -> Marks:
    """Find our marks in a document. What is not as we write it is left out: anybody can have written it."""
    texts = dict.fromkeys(_TEXTS, "")
    lists: dict[str, list[str]] = {name: [] for name in _LISTS}
    for description in document.descriptions:
        for attribute in description.attributes:  # other programs write a simple property as an attribute
            if attribute.uri == TAGLOOM and attribute.name in texts:
                texts[attribute.name] = attribute.value.strip()
        for found in description.properties:
            if found.uri == TAGLOOM and found.name in texts:
                texts[found.name] = found.text
            elif found.uri == TAGLOOM and found.name in lists:
                lists[found.name] += [item.text for item in found.items if item.plain and item.text]
    added = (entry.partition(" ")[::2] for entry in lists["Added"])
    return Marks(
        tagger=texts["Tagger"],
        settings=texts["Settings"],
        date=texts["Date"],
        reviewed=texts["Reviewed"],
        tags=tuple(_scored(lists["Tags"])),
        added=tuple((name, item.strip()) for name, item in added if name in BY_TITLE and item.strip()),
        created=tuple(lists["Created"]),
        expanded=tuple(lists["Expanded"]),
        rejected=tuple(lists["Rejected"]),
    )


def _scored(entries: Sequence[str]) -> Iterable[ScoredTag]:
    for entry in entries:
        number, _, path = entry.partition(" ")
        try:
            score = float(number)
        except ValueError:
            continue
        if path.strip() and math.isfinite(score):
            yield ScoredTag(path.strip(), score)


def xml_text(text: str) -> bytes:
    r"""Write text as XML.

    >>> xml_text("cats & dogs\x00")
    b'cats &amp; dogs'
    """
    return escape(held_by_xml(text), {"\r": "&#13;"}).encode("utf-8")


def held_by_xml(text: str) -> str:
    """Leave out the characters that XML cannot hold."""
    return "".join(character for character in text if _is_allowed(ord(character)))


def _is_allowed(code: int) -> bool:
    return code in (0x9, 0xA, 0xD) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000
