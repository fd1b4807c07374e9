"""Checking values that a user wrote: in a recipe, in the options of a head or a loss, in a tagger folder."""

from collections.abc import Iterable

from tagloom.errors import RecipeError, unknown_name
from tagloom.wording import shown


def check_whole(name: str, value: object, low: int, high: int | None = None) -> None:
    """Refuse anything but a whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < low or (high is not None and value > high):
        raise RecipeError(f"{name} is {shown(value)}; it must be a whole number {_range(low, high)}.")


def check_number(name: str, value: object, low: float, high: float, *, below: bool = False) -> None:
    """Refuse anything but a number from `low` to `high`, or with `below` to just below `high`."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not low <= value <= high or (below and value == high):  # type: ignore[operator]
        end = f"{low:g} up to, but not including, {high:g}" if below else f"{low:g} to {high:g}"
        raise RecipeError(f"{name} is {shown(value)}; it must be a number from {end}.")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse anything but one of the names in a closed table."""
    choices = tuple(choices)
    if not isinstance(value, str) or value not in choices:
        raise RecipeError(unknown_name(name, shown(value).strip("'"), choices))


def _range(low: int, high: int | None) -> str:
    return f"of at least {low}" if high is None else f"from {low} to {high}"
