"""The keywords of a document: those of its owner, and those that Tagloom wrote and nobody has confirmed yet."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from tagloom.xmp.document import Document
from tagloom.xmp.marks import Marks, read_marks
from tagloom.xmp.names import KEYWORD_PROPERTIES, PATH_MARK, KeywordProperty

# What programs note in the lists of keywords for themselves.
_OF_PROGRAMS = ("darktable|", "_digikam_internal_tags_|")


@dataclass(frozen=True)
class Keywords:
    """The keywords of a photo, as paths: `Animals|Dog`.

    Attributes:
        own: What its owner wrote or confirmed.
        ours: What Tagloom wrote and nobody has confirmed.
        rejected: What Tagloom wrote and somebody took out.
        reviewed: Whether somebody looked at all keywords, so that those that are absent do not apply.
    """

    own: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    reviewed: bool = False


def find_keywords(document: Document) -> Keywords:
    """Find the keywords of a document."""
    marks = read_marks(document)
    gone = gone_tags(document, marks)
    return Keywords(
        own=own_keywords(document, marks),
        ours=tuple(tag.path for tag in marks.tags if tag.path not in gone),
        rejected=tuple(dict.fromkeys([*marks.rejected, *gone])),
        reviewed=bool(marks.reviewed),
    )


def own_keywords(document: Document, marks: Marks) -> tuple[str, ...]:
    """Give the keywords that Tagloom did not write, as paths."""
    own: list[str] = []
    for wanted in KEYWORD_PROPERTIES:
        ours = marks.of_property(wanted.title)
        own += [to_path(item, wanted) for item in items_of(document, wanted) if item not in ours]
    return tuple(join_paths(own))


def items_of(document: Document, wanted: KeywordProperty) -> list[str]:
    """List the items of a keyword property, however it is written: as a list, as plain text or as an attribute."""
    found = [attribute.value.strip() for attribute in document.attributes(wanted)]
    for entry in document.properties(wanted):
        found += [item.text for item in entry.items if item.plain]
        found += [entry.text] if entry.plain else []
    return [item for item in found if item]


def to_path(item: str, of: KeywordProperty) -> str:
    """Turn an item of a property into a path.

    >>> from tagloom.xmp.names import HIERARCHICAL, SUBJECT, TAGS_LIST
    >>> to_path("Animals/Dog", TAGS_LIST), to_path("Animals|Dog", HIERARCHICAL), to_path("Cat|Dog", SUBJECT)
    ('Animals|Dog', 'Animals|Dog', 'Cat|Dog')
    """
    names = item.split(of.path_mark) if of.path_mark else [item]
    return PATH_MARK.join(plain for name in names if (plain := " ".join(name.split())))


def from_path(path: str, to: KeywordProperty) -> list[str]:
    """Give the items that stand for a path in a property: the path, or where there are no paths, every name in it.

    >>> from tagloom.xmp.names import SUBJECT, TAGS_LIST
    >>> from_path("Animals|Dog", TAGS_LIST), from_path("Animals|Dog", SUBJECT), from_path("A/C unit", TAGS_LIST)
    (['Animals/Dog'], ['Animals', 'Dog'], [])
    """
    names = [name for name in path.split(PATH_MARK) if name]
    if not to.path_mark:
        return names
    if any(to.path_mark in name for name in names):  # it would be read as another path
        return []
    return [to.path_mark.join(names)] if names else []


def join_paths(paths: Iterable[str]) -> list[str]:
    """Join the keywords of all properties: a name that occurs in a path is the flat form of that path.

    >>> join_paths(["Dog", "Sofa", "Animals|Dog", "dog"])
    ['Animals|Dog', 'Sofa']
    """
    kept = {plain_form(path): path for path in reversed([*paths]) if path and not _is_of_a_program(path)}
    in_paths = {name for path in kept if PATH_MARK in path for name in path.split(PATH_MARK)}
    return sorted(path for plain, path in kept.items() if PATH_MARK in plain or plain not in in_paths)


def plain_form(keyword: str) -> str:
    """Give the form in which keywords are compared: neither case nor the Unicode form makes a difference."""
    return unicodedata.normalize("NFC", keyword).casefold()


def gone_tags(document: Document, marks: Marks) -> dict[str, None]:
    """Give the tags of ours that somebody has taken out of every list that they were added to, in order."""
    present = {wanted: set(items_of(document, wanted)) for wanted in KEYWORD_PROPERTIES}
    added = {wanted: marks.of_property(wanted.title) for wanted in KEYWORD_PROPERTIES}

    def is_gone(path: str) -> bool:
        places = [(wanted, item) for wanted in KEYWORD_PROPERTIES for item in from_path(path, wanted)[-1:]]
        ours = [(wanted, item) for wanted, item in places if item in added[wanted]]
        return bool(ours) and not any(item in present[wanted] for wanted, item in ours)

    return {tag.path: None for tag in marks.tags if is_gone(tag.path)}


def _is_of_a_program(path: str) -> bool:
    return plain_form(path).startswith(_OF_PROGRAMS)
