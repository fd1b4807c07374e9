"""An XMP document, read so that it can be edited in place: where each description, property and keyword stands.

Only the parts that keywords need are kept: the descriptions in `rdf:RDF`, their properties, and the items of properties
that are lists. Everything is a range of the document's bytes, so whatever is not edited stays as it is.

A document comes from a stranger. A document type and entities are refused, and sizes, depth and counts are capped.
"""

import re
from dataclasses import dataclass, field
from typing import TypeVar
from xml.parsers import expat

from tagloom.errors import DataError
from tagloom.wording import first_line
from tagloom.xmp.encoding import Encoded, decode
from tagloom.xmp.names import KEYWORD_PROPERTIES, RDF, TAGLOOM, KeywordProperty

MAX_BYTES = 32 * 2**20
"""Masks that Lightroom stores in sidecars reach megabytes."""
MAX_DEPTH = 100
MAX_PROPERTIES = 20_000
MAX_ITEMS = 20_000
_WHITE = b" \t\r\n"
_LISTS = ("Bag", "Seq", "Alt")
# Possessive (*+), so that a tag is scanned once.
_TAG = re.compile(rb"""<[^"'>]*+(?:"[^"]*+"[^"'>]*+|'[^']*+'[^"'>]*+)*+>""")
_TAG_NAME = re.compile(rb"[^\s/>]++")
_SEPARATOR = "\n"  # between namespace, name and prefix; no name can contain it
_LEVEL_DESCRIPTION, _LEVEL_PROPERTY, _LEVEL_LIST, _LEVEL_ITEM = 1, 2, 3, 4
_READ = {(entry.uri, entry.name) for entry in KEYWORD_PROPERTIES}


@dataclass
class Element:
    """A range of the document: `<a>` from `start` to `opened`, `</a>` from `closing` to `end`.

    In `<a/>` the last three are the same.
    """

    uri: str
    name: str
    tag: bytes
    """The name as it is written, with its prefix."""
    start: int
    opened: int
    closing: int = 0
    end: int = 0
    parts: list[str] = field(default_factory=list)
    """The text directly in it."""
    plain: bool = True
    """Whether it contains text only."""

    @property
    def text(self) -> str:
        """Give the text in it, without outer spaces."""
        return "".join(self.parts).strip()

    @property
    def prefix(self) -> bytes:
        """Give the prefix as it is written, with its colon; empty if there is none."""
        before, colon, _ = self.tag.rpartition(b":")
        return before + colon

    @property
    def is_empty_tag(self) -> bool:
        """Whether it is written `<a/>`."""
        return self.opened == self.end


_E = TypeVar("_E", bound=Element)


@dataclass
class Property(Element):
    """A property of a description, with its list, if its value is one."""

    container: Element | None = None
    """The `rdf:Bag`, `rdf:Seq` or `rdf:Alt` in it."""
    items: list[Element] = field(default_factory=list)


@dataclass
class Attribute:
    """A property that is written as an attribute of its description."""

    uri: str
    name: str
    tag: bytes
    value: str


@dataclass
class Description(Element):
    """An `rdf:Description`: its properties, and those that are attributes."""

    properties: list[Property] = field(default_factory=list)
    attributes: list[Attribute] = field(default_factory=list)


@dataclass
class Document:
    """An XMP document."""

    name: str
    """The file it came from, for messages."""
    body: bytes
    """The document in UTF-8, without byte-order mark."""
    encoded: Encoded
    rdf: Element
    descriptions: list[Description]

    def properties(self, wanted: KeywordProperty) -> list[Property]:
        """List the properties of one name, in order."""
        return [
            entry
            for description in self.descriptions
            for entry in description.properties
            if (entry.uri, entry.name) == (wanted.uri, wanted.name)
        ]

    def attributes(self, wanted: KeywordProperty) -> list[Attribute]:
        """List the attributes of one name, in order."""
        return [
            entry
            for description in self.descriptions
            for entry in description.attributes
            if (entry.uri, entry.name) == (wanted.uri, wanted.name)
        ]

    def with_white_before(self, element: Element) -> int:
        """Give where the white space before an element begins."""
        start = element.start
        while start > 0 and self.body[start - 1] in _WHITE:
            start -= 1
        return start

    def white_before(self, element: Element) -> bytes:
        """Give the white space before an element."""
        return self.body[self.with_white_before(element) : element.start]


def read_document(data: bytes, name: str) -> Document:
    """Read an XMP document.

    Args:
        data: The bytes of a sidecar, or of the XMP in an image.
        name: Where they come from; begins every message.

    Raises:
        DataError: If it is too large, is not well-formed XML, has a document type, or holds no XMP.
    """
    if len(data) > MAX_BYTES:
        raise DataError(f"{name}: larger than {MAX_BYTES:,} bytes. Is this XMP?")
    body, encoded = decode(data, name)
    reader = _Reader(body, name)
    parser = reader.parser
    try:
        parser.Parse(body, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise DataError(
            f"{name}: not well-formed XML ({first_line(error)}). Write it again with the program that made it."
        ) from error
    if reader.rdf is None:
        raise DataError(f"{name}: is XML, but holds no rdf:RDF element, so it is not XMP.")
    return Document(name, body, encoded, reader.rdf, reader.descriptions)


class _Reader:
    """Collects what `Document` keeps, while expat reads."""

    def __init__(self, body: bytes, name: str) -> None:
        self.rdf: Element | None = None
        self.descriptions: list[Description] = []
        self._body, self._name = body, name
        self._open: list[Element | None] = []
        self._rdf_depth = 0  # of the one rdf:RDF while it is open
        self._properties = self._items = 0
        # Told to be UTF-8, whatever the document declares: it was decoded before.
        parser = expat.ParserCreate("utf-8", _SEPARATOR)
        parser.namespace_prefixes = True
        parser.ordered_attributes = True
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = self._text, self._refuse
        self.parser = parser

    def _start(self, full: str, attributes: list[str]) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise DataError(f"{self._name}: elements are nested more than {MAX_DEPTH} deep. Is this XMP?")
        if self._open and self._open[-1] is not None:
            self._open[-1].plain = False
        self._open.append(self._kept(full, attributes))

    def _kept(self, full: str, attributes: list[str]) -> Element | None:
        """Make the element that has just begun, if it is one to keep."""
        uri, name, _ = _split(full)
        if self.rdf is None and (uri, name) == (RDF, "RDF"):
            self.rdf = self._element(Element, uri, name)
            self._rdf_depth = len(self._open) + 1
            return self.rdf
        if not self._rdf_depth:
            return None
        level, parent = len(self._open) + 1 - self._rdf_depth, self._open[-1]
        if level == _LEVEL_DESCRIPTION and (uri, name) == (RDF, "Description"):
            description = self._element(Description, uri, name)
            pairs = zip(attributes[::2], attributes[1::2], strict=True)
            description.attributes = [_attribute(given, value) for given, value in pairs]
            self._count_properties(1 + len(description.attributes))
            self.descriptions.append(description)
            return description
        if level == _LEVEL_PROPERTY and isinstance(parent, Description):
            self._count_properties(1)
            found = self._element(Property, uri, name)
            parent.properties.append(found)
            return found
        if level == _LEVEL_LIST and isinstance(parent, Property) and parent.container is None and _is_read(parent):
            parent.container = self._element(Element, uri, name) if uri == RDF and name in _LISTS else None
            return parent.container
        if level == _LEVEL_ITEM and parent is not None and (uri, name) == (RDF, "li"):
            owner = self._open[-2]
            if isinstance(owner, Property) and owner.container is parent:
                self._items += 1
                if self._items > MAX_ITEMS:
                    raise DataError(f"{self._name}: more than {MAX_ITEMS:,} keywords. Is this the XMP of one photo?")
                item = self._element(Element, uri, name)
                owner.items.append(item)
                return item
        return None

    def _end(self, full: str) -> None:
        element = self._open.pop()
        if element is None:
            return
        if self._body[element.opened - 2 : element.opened] == b"/>":
            element.closing = element.end = element.opened
        else:
            element.closing = self.parser.CurrentByteIndex
            element.end = self._body.index(b">", element.closing) + 1
        if element is self.rdf:
            self._rdf_depth = 0

    def _text(self, text: str) -> None:
        element = self._open[-1] if self._open else None
        if element is not None:
            element.parts.append(text)

    def _refuse(self, *_details: object) -> None:
        raise DataError(f"{self._name}: XML with a document type or entities is refused. Remove the DOCTYPE.")

    def _element(self, kind: type[_E], uri: str, name: str) -> _E:
        start = self.parser.CurrentByteIndex
        tag, whole = _TAG_NAME.match(self._body, start + 1), _TAG.match(self._body, start)
        if tag is None or whole is None:  # expat has read it, so it is there
            raise DataError(f"{self._name}: an element could not be found again. Save it as UTF-8.")
        return kind(uri, name, tag[0], start, whole.end())

    def _count_properties(self, more: int) -> None:
        self._properties += more
        if self._properties > MAX_PROPERTIES:
            raise DataError(f"{self._name}: more than {MAX_PROPERTIES:,} properties. Is this the XMP of one photo?")


def _split(full: str) -> tuple[str, str, str]:
    """Split what expat gives as a name into namespace, name and prefix; the first and last may be empty."""
    parts = full.split(_SEPARATOR)
    if len(parts) == 1:
        return "", parts[0], ""
    return parts[0], parts[1], parts[2] if len(parts) > 2 else ""


def _attribute(full: str, value: str) -> Attribute:
    uri, name, prefix = _split(full)
    return Attribute(uri, name, (f"{prefix}:{name}" if prefix else name).encode(), value)


def _is_read(found: Property) -> bool:
    return found.uri == TAGLOOM or (found.uri, found.name) in _READ
