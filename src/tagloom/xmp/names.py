"""The names that XMP has for keywords, and ours."""

from typing import NamedTuple

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
TAGLOOM = "urn:tagloom:keywords/1.0/"
"""Our namespace: everything in it was written by Tagloom."""
PATH_MARK = "|"
"""What separates the names of a path: `Animals|Dog`."""


class KeywordProperty(NamedTuple):
    """A property that holds keywords."""

    prefix: str
    name: str
    uri: str
    path_mark: str
    """What separates the names of a path in it; empty if it holds single names."""

    @property
    def title(self) -> str:
        """Give the usual name, such as `dc:subject`."""
        return f"{self.prefix}:{self.name}"


SUBJECT = KeywordProperty("dc", "subject", "http://purl.org/dc/elements/1.1/", "")
HIERARCHICAL = KeywordProperty("lr", "hierarchicalSubject", "http://ns.adobe.com/lightroom/1.0/", "|")
TAGS_LIST = KeywordProperty("digiKam", "TagsList", "http://www.digikam.org/ns/1.0/", "/")
KEYWORD_PROPERTIES = (SUBJECT, HIERARCHICAL, TAGS_LIST)
BY_NAME = {(entry.uri, entry.name): entry for entry in KEYWORD_PROPERTIES}
BY_TITLE = {entry.title: entry for entry in KEYWORD_PROPERTIES}
