"""All keywords of a photo: those of its sidecars, of the XMP inside it, and of its IPTC records."""

from dataclasses import dataclass
from pathlib import Path

from tagloom.data.embedded import read_embedded
from tagloom.data.sidecars import read_sidecar, sidecars_of
from tagloom.errors import DataError
from tagloom.xmp.document import read_document
from tagloom.xmp.keywords import Keywords, find_keywords, join_paths, plain_form, to_path
from tagloom.xmp.names import SUBJECT


@dataclass(frozen=True)
class PhotoKeywords:
    """The keywords of a photo, and what of its metadata could not be read."""

    keywords: Keywords
    has_sidecar: bool
    problems: tuple[str, ...] = ()


def read_photo_keywords(photo: Path) -> PhotoKeywords:
    """Read the keywords of a photo from everywhere. What is damaged is named, and the rest is read."""
    found: list[Keywords] = []
    problems: list[str] = []
    sidecars = sidecars_of(photo)
    for sidecar in sidecars:
        try:
            found.append(find_keywords(read_document(read_sidecar(sidecar), str(sidecar))))
        except DataError as error:
            problems.append(str(error))
    try:
        found.append(embedded_keywords(photo))
    except DataError as error:
        problems.append(str(error))
    return PhotoKeywords(_joined(found), bool(sidecars), tuple(problems))


def embedded_keywords(photo: Path) -> Keywords:
    """Read the keywords inside a photo: its XMP, and its IPTC records."""
    embedded = read_embedded(photo)
    iptc = Keywords(own=tuple(join_paths(to_path(name, SUBJECT) for name in embedded.iptc)))
    if not embedded.xmp:
        return iptc
    within = find_keywords(read_document(embedded.xmp, f"{photo} (XMP)"))
    ours = {plain_form(name) for path in within.ours for name in path.split("|")}
    # Programs that copy XMP keywords to IPTC copy ours too, and they are still not the owner's.
    return _joined([within, Keywords(own=tuple(path for path in iptc.own if plain_form(path) not in ours))])


def _joined(found: list[Keywords]) -> Keywords:
    own = tuple(join_paths(path for keywords in found for path in keywords.own))
    known = {plain_form(path) for path in own}
    ours = dict.fromkeys(path for keywords in found for path in keywords.ours if plain_form(path) not in known)
    rejected = dict.fromkeys(path for keywords in found for path in keywords.rejected if plain_form(path) not in known)
    return Keywords(own, tuple(ours), tuple(rejected), any(keywords.reviewed for keywords in found))
