"""What the built-in data set shows: things, themes, colours, and the settings that make it easy or hard."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np

from tagloom.checks import check_choice, check_number, check_whole
from tagloom.data.scenes.painting import COLOURS
from tagloom.data.scenes.shapes import SHAPES
from tagloom.errors import RecipeError
from tagloom.wording import shown

Names: TypeAlias = Literal["things", "composed"]

# Things of one theme co-occur as often as `co_occurrence` says.
THEMES: dict[str, tuple[str, ...]] = {
    "sea": ("boat", "fish", "anchor", "umbrella"),
    "sky": ("star", "moon", "cloud", "rocket"),
    "garden": ("flower", "tree", "mushroom", "butterfly"),
    "street": ("car", "house", "ladder", "bicycle"),
    "desk": ("cup", "clock", "key", "candle"),
    "party": ("balloon", "gift", "crown", "heart"),
}
THINGS = tuple(sorted(SHAPES))
PAIRS = tuple((colour, thing) for colour in COLOURS for thing in THINGS)


@dataclass(frozen=True)
class SceneSettings:
    """What the pictures of a set have in common."""

    size: int = 160
    """Side of the pictures, in pixels."""
    things_per_picture: tuple[int, int] = (1, 5)
    """Fewest and most things in a picture, all different. Things that fit nowhere are left out, never the first."""
    object_size: tuple[float, float] = (0.06, 0.6)
    """Smallest and largest longer side of a thing, as a share of the picture's side; log-uniform in between."""
    co_occurrence: float = 0.6
    """Probability that a thing is drawn from the picture's theme and not from all things."""
    unseen: float = 0.0
    """Share of the pairs of colour and thing that training and validation never show; the test files show all."""
    names: Names = "things"
    """Labels are `things` ("star", 24 classes) or `composed` of colour and thing ("red star", 192 classes)."""

    def __post_init__(self) -> None:
        check_whole("size", self.size, 32, 2048)
        check_number("co_occurrence", self.co_occurrence, 0, 1)
        check_number("unseen", self.unseen, 0, 0.75)
        check_choice("names", self.names, ("things", "composed"))
        for name in ("things_per_picture", "object_size"):
            pair = getattr(self, name)
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise RecipeError(f"{name} is {shown(pair)}; it must be two numbers, the smaller first.")
            object.__setattr__(self, name, tuple(pair))  # YAML and JSON bring a list
        fewest, most = self.things_per_picture
        check_whole("the first of things_per_picture", fewest, 1, len(THINGS))
        check_whole("the second of things_per_picture", most, fewest, len(THINGS))
        smallest, largest = self.object_size
        check_number("the first of object_size", smallest, 0.02, 0.9)
        check_number("the second of object_size", largest, smallest, 0.9)


DEFAULT_SETTINGS = SceneSettings()


def scene_classes(names: Names = "things") -> list[str]:
    """List the classes in order.

    >>> len(scene_classes()), len(scene_classes("composed")), scene_classes("composed")[0]
    (24, 192, 'red anchor')
    """
    return list(THINGS) if names == "things" else [f"{colour} {thing}" for colour, thing in PAIRS]


def unseen_pairs(seed: int, share: float) -> list[tuple[str, str]]:
    """List the pairs of colour and thing that training never shows. Every thing is still shown in other colours."""
    return [pair for pair in PAIRS if pair[0] not in seen_colours(seed, share)[pair[1]]]


@lru_cache(maxsize=64)
def seen_colours(seed: int, unseen: float) -> dict[str, tuple[str, ...]]:
    """Give the colours that each thing may have. Colours are removed thing by thing, so that no thing loses all."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, 2**32 - 1]))
    colours = list(COLOURS)
    seen: dict[str, tuple[str, ...]] = {}
    for number, thing in enumerate(THINGS):
        # Rounding up for some things and down for others gives the right share over all of them.
        left_out = math.floor(unseen * len(colours) * (number + 1)) - math.floor(unseen * len(colours) * number)
        kept = sorted(rng.permutation(len(colours))[left_out:])
        seen[thing] = tuple(colours[i] for i in kept)
    return seen
