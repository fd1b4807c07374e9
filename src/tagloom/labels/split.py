"""Seen and unseen labels: those a zero-shot tagger is trained on, and those it is also evaluated on."""

import json
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from tagloom.data.parsing.classes import MAX_CLASSES_BYTES, read_classes
from tagloom.data.regular_file import read_regular
from tagloom.data.table import not_a_class
from tagloom.errors import DataError
from tagloom.wording import first_line

_DRAWN = "random:"
_KINDS = "a text file of unseen labels, one per line; a .json file with a list 'test class'; or random:COUNT:SEED"


class LabelSplit(NamedTuple):
    """Seen and unseen labels."""

    seen: tuple[str, ...]
    unseen: tuple[str, ...]


def read_split(given: str, classes: Sequence[str]) -> LabelSplit:
    """Split the classes of a table into seen and unseen ones, both in the order of the table.

    Args:
        given: A text file that lists the unseen labels; a JSON file with a list "test class", like NUS-WIDE's
            benchmark_81_v0.json; or "random:15" or "random:15:7" for 15 labels drawn with seed 0 or 7.
        classes: All classes of the table.

    >>> read_split("random:1:3", ["ant", "bee", "cat"])
    LabelSplit(seen=('ant', 'bee'), unseen=('cat',))
    """
    unseen = set(_unseen(given, classes))
    known = set(classes)
    for name in sorted(unseen):
        if name not in known:
            raise DataError(f"{given}: {not_a_class(name, classes)} Correct it, or remove it from the split.")
    return _checked(given, classes, tuple(name for name in classes if name in unseen))


def split_to_score(given: str, trained: Sequence[str], classes: Sequence[str]) -> LabelSplit:
    """Split the labels on which a tagger with word queries is evaluated, even if the table lacks some of them.

    Args:
        given: The split, as in `read_split`.
        trained: The tagger's classes; those that the split does not name are seen.
        classes: The classes of the evaluated table. Labels are drawn from these and the trained ones.
    """
    unseen = _unseen(given, list(dict.fromkeys((*trained, *classes))))
    if given.startswith(_DRAWN):
        # In the draw for training, no trained label came before an untrained one. So trained labels at the end of this
        # draw only replace unseen labels that the evaluated table lacks.
        own = set(trained)
        last = max((index for index, name in enumerate(unseen) if name not in own), default=len(unseen) - 1)
        unseen = unseen[: last + 1]
    return _checked(given, trained, tuple(unseen))


def _checked(given: str, classes: Sequence[str], unseen: tuple[str, ...]) -> LabelSplit:
    left_out = set(unseen)
    seen = tuple(name for name in classes if name not in left_out)
    if not seen or not unseen:
        raise DataError(f"{given}: leaves {len(seen)} seen and {len(unseen)} unseen labels. Both are needed.")
    return LabelSplit(seen, unseen)


def _unseen(given: str, classes: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(_drawn(given, classes) if given.startswith(_DRAWN) else _listed(Path(given))))


def _drawn(given: str, classes: Sequence[str]) -> list[str]:
    count, _, seed = given.removeprefix(_DRAWN).partition(":")
    if not count.isdigit() or not (seed or "0").isdigit():
        raise DataError(f"{given}: write random:COUNT or random:COUNT:SEED, for example random:15:0")
    if int(count) >= len(classes):
        raise DataError(f"{given}: there are {len(classes)} labels, and at least one must remain to train.")
    # Ordered by a hash of each name, so that a table with a few more or fewer labels gives nearly the same draw.
    order = sorted(classes, key=lambda name: (blake2b(f"{int(seed or 0)}\n{name}".encode()).digest(), name))
    return order[: int(count)]


def _listed(path: Path) -> Sequence[str]:
    if not path.exists():
        raise DataError(f"{path}: no such file. A split is {_KINDS}.")
    if path.suffix.lower() != ".json":
        return read_classes(path)
    try:
        data = read_regular(path, MAX_CLASSES_BYTES)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}). A split is {_KINDS}.") from error
    if len(data) > MAX_CLASSES_BYTES:
        raise DataError(f"{path}: larger than {MAX_CLASSES_BYTES} bytes. Expected a list of labels.")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({first_line(error)}). A split is {_KINDS}.") from error
    names = content.get("test class") if isinstance(content, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{path}: has no list of names called 'test class'. A split is {_KINDS}.")
    return names
