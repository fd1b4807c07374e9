"""Wording for messages: names and values from users' files, kept short and harmless to a terminal."""

import unicodedata
from collections.abc import Iterable, Sequence

MAX_LINE = 300
MAX_SHOWN = 60
MAX_LISTED = 8
_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"


def shown(value: object) -> str:
    """Show a value in a message, shortened if it is long.

    >>> shown("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..."
    """
    try:
        text = repr(value[:MAX_SHOWN] if isinstance(value, str | bytes) else value)
    except (RecursionError, ValueError):  # lists in lists in lists, or a number of more than 4,300 digits
        text = f"a {type(value).__name__} too large to show"
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


def counted(count: int, one: str, many: str = "") -> str:
    """Give a number with its noun; `many` is the plural where it is not `one` with an s.

    >>> counted(1, "epoch"), counted(1200, "image"), counted(2, "class", "classes")
    ('1 epoch', '1,200 images', '2 classes')
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def listed(names: Iterable[object], most: int = MAX_LISTED) -> str:
    """List the first names, and count the others.

    >>> listed(["ant", "bee", "cat"], most=2)
    'ant, bee and 1 more'
    """
    names = list(names)
    return ", ".join(str(name) for name in names[:most]) + and_more(names, most)


def listed_lines(lines: Iterable[object], most: int = MAX_LISTED) -> str:
    r"""List the first entries, each on an indented line, and count the others.

    >>> listed_lines(["ant", "bee", "cat"], most=2)
    '  ant\n  bee\n  and 1 more'
    """
    lines = list(lines)
    rest = and_more(lines, most).strip()
    return "\n".join(f"  {line}" for line in [*lines[:most], *([rest] if rest else [])])


def and_more(names: Sequence[object], most: int) -> str:
    """Count the names after the first ones; give nothing if there are no more.

    >>> and_more(range(1200), 20), and_more(range(3), 20)
    (' and 1,180 more', '')
    """
    return f" and {len(names) - most:,} more" if len(names) > most else ""


def first_line(error: BaseException) -> str:
    r"""Give the first line of an error's message, shortened if it is long, or the error's type without a message.

    >>> first_line(ValueError("bad header\nin block 3")), first_line(KeyError())
    ('bad header', 'KeyError')
    """
    text = str(error).strip().partition("\n")[0] or type(error).__name__
    return text if len(text) <= MAX_LINE else f"{text[: MAX_LINE - 3]}..."


def printable(name: str) -> str:
    r"""Replace characters that could move the cursor, recolour the terminal, break the line or reverse the text.

    Spaces of other scripts and the joiners that some scripts need are kept: they occur in honest file names.

    >>> printable("cat\x1b[31m"), printable("cat\nerror"), printable("gpj\u202egnp")
    ('cat�[31m', 'cat�error', 'gpj�gnp')
    """
    return "".join(character if _is_harmless(character) else "\N{REPLACEMENT CHARACTER}" for character in name)


def printable_lines(text: str) -> str:
    r"""Do as `printable`, but keep the line breaks of a message.

    Lines after the first are indented, so a name with a line break cannot pass for a message of its own.

    >>> printable_lines("cat\x1b[31m:\n  one\ntwo")
    'cat�[31m:\n  one\n  two'
    """
    first, *others = map(printable, text.split("\n"))
    return "\n".join([first, *(line if line.startswith("  ") or not line else f"  {line}" for line in others)])


def _is_harmless(character: str) -> bool:
    return character.isprintable() or character in _JOINERS or unicodedata.category(character) == "Zs"
