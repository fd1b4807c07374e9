"""Checking options that take one of a few words."""

from collections.abc import Iterable

from tagloom.errors import DataError
from tagloom.wording import shown


def check_option(where: object, name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse an option whose value is not one of the choices; `where` begins the message."""
    *others, last = choices
    if value not in (*others, last):
        known = f"{', '.join(map(repr, others))} or {last!r}"
        raise DataError(f"{where}: {name} must be {known}, found {shown(value)}.")
