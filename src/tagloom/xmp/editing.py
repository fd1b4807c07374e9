"""Changing the keywords of an XMP document by editing its bytes: what is not ours to change stays byte for byte.

Items are added to the lists that a document has. Everything else, our marks and lists that it lacks, goes into one
`rdf:Description` of our own after its last one, so taking that out leaves the document as it was. Other programs may
have rearranged the document in between; then our items and marks are found by their names, wherever they are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tagloom.errors import DataError
from tagloom.xmp.document import Document, read_document
from tagloom.xmp.edits import Edit, edited, into_list, with_block, without_marks
from tagloom.xmp.keywords import from_path, gone_tags, items_of, own_keywords, plain_form
from tagloom.xmp.marks import OF_A_WRITING, Marks, ScoredTag, held_by_xml, read_marks
from tagloom.xmp.names import KEYWORD_PROPERTIES, PATH_MARK, RDF, KeywordProperty

_NOTHING = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/">\n <rdf:RDF xmlns:rdf="' + RDF.encode() + b'">\n </rdf:RDF>\n</x:xmpmeta>\n'
)
EMPTY = b'<?xml version="1.0" encoding="UTF-8"?>\n' + _NOTHING
"""A sidecar without anything, as Tagloom begins one."""
EMPTY_PACKET = (
    '<?xpacket begin="\N{ZERO WIDTH NO-BREAK SPACE}" id="W5M0MpCehiHzreSzNTczkc9d"?>\n'.encode()
    + _NOTHING
    + b'<?xpacket end="w"?>'
)
"""XMP inside an image without anything, as Tagloom begins it."""


def is_empty_packet(data: bytes) -> bool:
    """Whether XMP is what Tagloom began, without anything; exiftool says of some formats that it cannot be written."""
    return data.replace(b'end="r"', b'end="w"') == EMPTY_PACKET


@dataclass(frozen=True)
class Writing:
    """What is to be written, and what is noted about it."""

    tags: tuple[ScoredTag, ...]
    tagger: str
    settings: str
    date: str
    in_image: tuple[str, ...] = ()
    """Keywords inside the image itself, as paths, for a document that has none: some programs read only a sidecar."""


def with_tags(data: bytes, name: str, writing: Writing) -> bytes:
    """Write tags as keywords, in place of those that Tagloom wrote before.

    A tag that the photo already has as a keyword of its owner is not written, and neither is one that somebody took
    out after an earlier writing. If there is nothing to write, what was written before is taken out.
    """
    before = read_document(data, name)
    marks = read_marks(before)
    rejected = tuple(dict.fromkeys([*marks.rejected, *gone_tags(before, marks)]))
    changed = rejected != marks.rejected
    clean = without_marks(before, marks, (*OF_A_WRITING, "Rejected") if changed else OF_A_WRITING)
    document = read_document(clean, name)
    noted = Marks(rejected=rejected if changed else ())
    own = own_keywords(document, Marks()) or tuple(dict.fromkeys(writing.in_image))
    has = {part for path in own for part in _parts(path)} | {plain_form(path) for path in rejected}
    tags = tuple(tag for tag in _cleaned(writing.tags) if not {plain_form(tag.path), _last_name(tag.path)} & has)
    if not tags:
        result = with_block(clean, name, noted) if noted.rejected else clean
    else:
        plan = _plan(document, [tag.path for tag in tags], own)
        noted = replace(
            noted,
            tagger=writing.tagger,
            settings=writing.settings,
            date=writing.date,
            tags=tags,
            added=tuple(plan.added),
            created=tuple(entry.title for entry, _ in plan.missing),
            expanded=tuple(plan.expanded),
        )
        result = with_block(edited(document, plan.edits), name, noted, plan.missing)
    _check_nothing_is_lost(before, marks, result)
    return result


def without_tags(data: bytes, name: str) -> bytes:
    """Take out what Tagloom wrote. What was reviewed or rejected stays noted: that was somebody's own word."""
    document = read_document(data, name)
    marks = read_marks(document)
    rejected = tuple(dict.fromkeys([*marks.rejected, *gone_tags(document, marks)]))
    changed = rejected != marks.rejected
    result = without_marks(document, marks, (*OF_A_WRITING, "Rejected") if changed else OF_A_WRITING)
    if changed:
        result = with_block(result, name, Marks(rejected=rejected))
    _check_nothing_is_lost(document, marks, result)
    return result


def with_review(data: bytes, name: str, keywords: Sequence[str], date: str) -> bytes:
    """Note that somebody looked at a photo and found that these keywords apply, and no others that were offered.

    Keywords of ours that apply become the owner's; the others are taken out. Keywords that are new are added, and are
    the owner's too. Keywords of the owner that are not among them stay: this is no way to delete somebody's words.
    Without a date the keywords are written, but not that nothing else applies.
    """
    before = read_document(data, name)
    marks = read_marks(before)
    kept = {plain_form(path) for path in keywords}
    clean = without_marks(before, marks, (*OF_A_WRITING, "Rejected", "Reviewed"))
    document = read_document(clean, name)
    own = own_keywords(document, Marks())
    known = {plain_form(path) for path in own}
    plan = _plan(document, [path for path in dict.fromkeys(keywords) if plain_form(path) not in known], own)
    offered = dict.fromkeys([*marks.rejected, *(tag.path for tag in marks.tags)])
    rejected = tuple(path for path in offered if plain_form(path) not in kept)
    noted, result = Marks(reviewed=date, rejected=rejected), edited(document, plan.edits)
    if noted != Marks() or plan.missing:
        result = with_block(result, name, noted, plan.missing)
    _check_nothing_is_lost(before, marks, result)
    return result


@dataclass
class _Plan:
    """Where keywords are to be added.

    Attributes:
        added: Each item with its property.
        expanded: Properties whose list is written `<rdf:Bag/>`.
        edits: Changes of the lists that are there.
        missing: Properties that are not there, with their items.
    """

    added: list[tuple[str, str]]
    expanded: list[str]
    edits: list[Edit]
    missing: list[tuple[KeywordProperty, list[str]]]


def _plan(document: Document, paths: Sequence[str], own: Sequence[str]) -> _Plan:
    """Plan to add paths to every keyword property.

    A property that is missing also gets the keywords that the document has elsewhere, because a program that reads this
    property may read no other.
    """
    plan = _Plan([], [], [], [])
    for wanted in KEYWORD_PROPERTIES if paths else ():
        found = document.properties(wanted)
        if not found and not document.attributes(wanted):
            items = _items([*own, *paths], wanted, set())
            plan.missing += [(wanted, items)] if items else []
            plan.added += [(wanted.title, item) for item in items]
            continue
        items = _items(paths, wanted, {plain_form(item) for item in items_of(document, wanted)})
        target = next((entry for entry in found if entry.container is not None), None)
        if target is None or target.container is None or not items:
            continue  # a property that is there, but is no list, was written by hand: best left alone
        plan.added += [(wanted.title, item) for item in items]
        plan.edits.append(into_list(document, target, target.container, items))
        plan.expanded += [wanted.title] if target.container.is_empty_tag else []
    return plan


def _items(paths: Iterable[str], wanted: KeywordProperty, present: set[str]) -> list[str]:
    """Give the items for paths in a property, without those that are present."""
    items: dict[str, str] = {}
    for path in paths:
        for item in from_path(path, wanted):
            if plain_form(item) not in present:
                items.setdefault(plain_form(item), item)
    return list(items.values())


def _cleaned(tags: Iterable[ScoredTag]) -> list[ScoredTag]:
    """Give tags, best first, with names that XML can hold and without any that is empty or the same as another."""
    best: dict[str, ScoredTag] = {}
    for tag in sorted(tags, key=lambda tag: -tag.score):
        names = (" ".join(held_by_xml(name).split()) for name in tag.path.split(PATH_MARK))
        if path := PATH_MARK.join(name for name in names if name):
            best.setdefault(plain_form(path), ScoredTag(path, tag.score))
    return list(best.values())


def _parts(path: str) -> Iterable[str]:
    """Give everything that a keyword says: each name in its path, and each beginning of it."""
    names = plain_form(path).split(PATH_MARK)
    yield from names
    yield from (PATH_MARK.join(names[:count]) for count in range(2, len(names) + 1))


def _last_name(path: str) -> str:
    return plain_form(path.rpartition(PATH_MARK)[2])


def _check_nothing_is_lost(before: Document, marks: Marks, result: bytes) -> None:
    """Refuse a result that lacks a keyword of the owner; the file is then left as it is."""
    after = read_document(result, before.name)
    for wanted in KEYWORD_PROPERTIES:
        ours = marks.of_property(wanted.title)
        lost = [item for item in items_of(before, wanted) if item not in ours]
        present = set(items_of(after, wanted))
        if any(item not in present for item in lost):
            raise DataError(f"{before.name}: its {wanted.title} cannot be edited safely. Save it with another program.")
