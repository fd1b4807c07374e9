"""The errors that Tagloom raises on purpose. Each says what was found, where, and what to do about it."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal

ImageFault = Literal["missing", "broken", "oversized", "format"]


class TagloomError(Exception):
    """Something the user can fix. The command prints the message without a traceback and exits with 2."""


class DataError(TagloomError):
    """A label table or its images cannot be used as they are."""


class ImageError(TagloomError):
    """One image cannot be decoded safely. Runs skip and list such images, and do not stop for one.

    `path` names the image; `reason` is missing, broken, oversized or format.
    """

    def __init__(self, path: str, reason: ImageFault, finding: str) -> None:
        super().__init__(
            path, reason, finding
        )  # exactly the arguments, so that the error can be pickled between processes
        self.path = path
        self.reason = reason
        self.finding = finding

    def __str__(self) -> str:
        return f"{self.path}: {self.finding}"


class RecipeError(TagloomError):
    """A recipe names something unknown, or gives a value that cannot work."""


class TaggerError(TagloomError):
    """A tagger folder, a set of weights or a model name cannot be used."""


class WordError(TagloomError):
    """A label has no word vector, or a source of word vectors cannot be used."""


class MissingExtraError(TagloomError):
    """A command needs a package that the small install does not include."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs packages that are not installed. Run: pip install 'tagloom[{extra}]'")


def unknown_name(kind: str, given: str, known: Iterable[str]) -> str:
    """Say that a name is not in a closed table, suggest the nearest one, and list all.

    >>> unknown_name("loss", "assymetric", ["asymmetric", "bce"])
    "unknown loss 'assymetric': did you mean 'asymmetric'? Known: asymmetric, bce"
    """
    names = sorted(known)
    folded = {name.casefold(): name for name in names}  # "map" is near to "mAP"
    near = get_close_matches(given.casefold(), folded, n=1)
    hint = f": did you mean '{folded[near[0]]}'?" if near else "."
    return f"unknown {kind} '{given}'{hint} Known: {', '.join(names) or 'none'}"
