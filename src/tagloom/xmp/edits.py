"""Small changes of a document's bytes: add items to a list, add a description of ours, take ours out."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeAlias

from tagloom.xmp.document import Description, Document, Element, Property, read_document
from tagloom.xmp.marks import PREFIX, Marks, xml_text
from tagloom.xmp.names import BY_NAME, KEYWORD_PROPERTIES, RDF, TAGLOOM, KeywordProperty

Edit: TypeAlias = tuple[int, int, bytes]
"""What replaces the bytes from a start to an end."""
Missing: TypeAlias = "Sequence[tuple[KeywordProperty, list[str]]]"
"""Properties that a document lacks, with the items they are to have."""
_RDF_ELEMENT = "rdf:RDF"
_ATTRIBUTE = re.compile(rb"\s+([^\s=]++)\s*=\s*(?:\"[^\"]*+\"|'[^']*+')")
_NOT_A_PROPERTY = {(RDF, "about"), (RDF, "ID"), (RDF, "nodeID")}


def edited(document: Document, edits: Sequence[Edit]) -> bytes:
    """Apply edits, which do not overlap, and give the bytes of the document in its own encoding."""
    pieces, place = [], 0
    for start, end, piece in sorted(edits):
        pieces += [document.body[place:start], piece]
        place = end
    return document.encoded.encode(b"".join([*pieces, document.body[place:]]))


def into_list(document: Document, target: Property, container: Element, items: Sequence[str]) -> Edit:
    """Add items after the last one of a property's list, each with the white space that its first item has."""
    tag = container.prefix + b"li"
    white = document.white_before(target.items[0]) if target.items else b""
    lines = b"".join(white + b"<" + tag + b">" + xml_text(item) + b"</" + tag + b">" for item in items)
    if container.is_empty_tag:
        return container.opened - 2, container.opened, b">" + lines + b"</" + container.tag + b">"
    place = target.items[-1].end if target.items else container.opened
    return place, place, lines


def with_block(data: bytes, name: str, marks: Marks, missing: Missing = ()) -> bytes:
    """Add a description of ours after the last one, with marks and with keyword properties that are missing."""
    document = read_document(data, name)
    rdf, last = document.rdf, document.descriptions[-1] if document.descriptions else None
    if rdf.is_empty_tag:
        marks = replace(marks, expanded=(*marks.expanded, _RDF_ELEMENT))
    content: list[tuple[str, str | list[str]]] = [(entry.title, items) for entry, items in missing]
    content += [(f"{PREFIX}:{title}", value) for title, value in marks.properties()]
    spaces = {entry.prefix: entry.uri for entry, _ in missing} | {PREFIX: TAGLOOM}
    prefix = rdf.prefix
    if not prefix or prefix[:-1].decode() in spaces:  # attributes need a prefix, and ours must not hide it
        prefix, spaces["rdf"] = b"rdf:", RDF
    white = document.white_before(last) if last is not None else (document.white_before(rdf) or b"\n") + b" "
    block = white + _block(prefix, white, _about(document, last), spaces, content)
    if rdf.is_empty_tag:
        return edited(document, [(rdf.opened - 2, rdf.opened, b">" + block + b"</" + rdf.tag + b">")])
    place = last.end if last is not None else rdf.opened
    return edited(document, [(place, place, block)])


def without_marks(document: Document, marks: Marks, names: Collection[str]) -> bytes:
    """Take out the items that the marks say were added, and the marks of these names."""
    edits = [edit for description in document.descriptions for edit in _removals(document, description, marks, names)]
    return _collapsed(edited(document, edits), document.name, marks.expanded)


def _block(
    prefix: bytes, white: bytes, about: bytes, spaces: dict[str, str], content: Sequence[tuple[str, str | list[str]]]
) -> bytes:
    """Write a description; it is indented as `white`, the white space before its first line, says."""
    step = white + b" " if white else b"\n "
    lines = [b"<" + prefix + b"Description " + prefix + b"about=" + about]
    lines[0] += b"".join(f' xmlns:{short}="{uri}"'.encode() for short, uri in spaces.items()) + b">"
    for title, value in content:
        tag = title.encode()
        if isinstance(value, str):
            lines.append(step + b"<" + tag + b">" + xml_text(value) + b"</" + tag + b">")
            continue
        lines.append(step + b"<" + tag + b">" + step + b" <" + prefix + b"Bag>")
        lines += [step + b"  <" + prefix + b"li>" + xml_text(item) + b"</" + prefix + b"li>" for item in value]
        lines.append(step + b" </" + prefix + b"Bag>" + step + b"</" + tag + b">")
    return b"".join(lines) + (white or b"\n") + b"</" + prefix + b"Description>"


def _about(document: Document, last: Description | None) -> bytes:
    """Give the value of `rdf:about`, in quotes, as the other descriptions have it: it must be the same in all."""
    for attribute in last.attributes if last is not None else []:
        if last is not None and (attribute.uri, attribute.name) == (RDF, "about"):
            start, end = _attribute_range(document, last, attribute.tag)
            return document.body[start:end].partition(b"=")[2].strip() or b'""'
    return b'""'


def _removals(document: Document, description: Description, marks: Marks, names: Collection[str]) -> list[Edit]:
    """Plan how our things leave a description; if nothing else is in it, it goes as a whole."""
    removed: list[Property] = []
    edits: list[Edit] = []
    for entry in description.properties:
        wanted = BY_NAME.get((entry.uri, entry.name))
        added = set() if wanted is None else marks.of_property(wanted.title)
        ours = [item for item in entry.items if item.plain and item.text in added]
        emptied = wanted is not None and wanted.title in marks.created and len(ours) == len(entry.items)
        if emptied or (entry.uri == TAGLOOM and entry.name in names):
            removed.append(entry)
        else:
            edits += [(document.with_white_before(item), item.end, b"") for item in ours]
    marked = [entry for entry in description.attributes if entry.uri == TAGLOOM and entry.name in names]
    others = [entry for entry in description.attributes if (entry.uri, entry.name) not in _NOT_A_PROPERTY]
    if (removed or marked) and len(removed) == len(description.properties) and len(marked) == len(others):
        return [(document.with_white_before(description), description.end, b"")]
    edits += [(*_attribute_range(document, description, entry.tag), b"") for entry in marked]
    return edits + [(document.with_white_before(entry), entry.end, b"") for entry in removed]


def _attribute_range(document: Document, element: Element, tag: bytes) -> tuple[int, int]:
    """Find an attribute in a start tag, with the white space before it; an empty range if it is not there."""
    place = element.start + 1 + len(element.tag)
    while (found := _ATTRIBUTE.match(document.body, place, element.opened)) is not None:
        if found[1] == tag:
            return found.start(), found.end()
        place = found.end()
    return element.opened, element.opened


def _collapsed(data: bytes, name: str, expanded: Sequence[str]) -> bytes:
    """Write `<rdf:Bag/>` again where we had to open it, if nothing is in it."""
    if not expanded:
        return data
    document = read_document(data, name)
    candidates = [document.rdf] if _RDF_ELEMENT in expanded else []
    for wanted in KEYWORD_PROPERTIES:
        if wanted.title in expanded:
            candidates += [entry.container for entry in document.properties(wanted) if entry.container is not None]
    return edited(
        document,
        [
            (element.opened - 1, element.end, b"/>")
            for element in candidates
            if element.opened == element.closing and not element.is_empty_tag
        ],
    )
