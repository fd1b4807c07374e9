"""Checking values that a user wrote: in a recipe, in the options of a head or a loss, in a tagger folder."""

from collections.abc import Iterable
from math import inf

from tagloom.errors import RecipeError, unknown_name
from tagloom.wording import shown


def check_whole(name: str, value: object, low: int, high: int | None = None) -> None:
    """Refuse anything but a whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < low or (high is not None and value > high):
        raise RecipeError(f"{name} is {shown(value)}; it must be a whole number {_range(low, high)}.")


def check_number(name: str, value: object, low: float, high: float = inf, *, below: bool = False) -> None:
    """Refuse anything but a finite number from `low` to `high`, or with `below` to just below `high`."""
    below = below or high == inf
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not low <= value <= high or (below and value == high):  # type: ignore[operator]
        raise RecipeError(f"{name} is {shown(value)}; it must be a number {_interval(low, high, below=below)}.")


def check_positive(name: str, value: object) -> None:
    """Refuse anything but a finite number greater than 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
        raise RecipeError(f"{name} is {shown(value)}; it must be a number greater than 0.")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse anything but one of the names in a closed table."""
    choices = tuple(choices)
    if not isinstance(value, str) or value not in choices:
        raise RecipeError(unknown_name(name, shown(value).strip("'"), choices))


def _interval(low: float, high: float, *, below: bool) -> str:
    if high == inf:
        return f"of at least {low:g}"
    return f"from {low:g} up to, but not including, {high:g}" if below else f"from {low:g} to {high:g}"


def _range(low: int, high: int | None) -> str:
    return f"of at least {low}" if high is None else f"from {low} to {high}"
