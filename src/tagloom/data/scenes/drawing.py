"""Drawing one picture of the built-in data set."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from PIL import Image, ImageDraw

from tagloom.data.scenes.painting import (
    SUPERSAMPLING,
    Sketch,
    backdrop,
    clutter_over,
    clutter_under,
    grain,
    outline_for,
    paint,
    shade,
    sketch,
)
from tagloom.data.scenes.settings import DEFAULT_SETTINGS, THEMES, THINGS, Names, SceneSettings, seen_colours

MAX_OVERLAP = 0.2
"""The largest overlap of two boxes, as a share of the smaller one."""

_TRIES = 16
_SHRINK = 0.85

_Arranged: TypeAlias = tuple[Sketch, tuple[float, float], float]


@dataclass(frozen=True)
class PlacedThing:
    """One labelled thing in a picture."""

    name: str
    colour: str
    box: tuple[float, float, float, float]
    """Left, top, right, bottom in pixels of the picture."""
    size: float
    """Longer side of the box as a share of the picture's side."""

    def label(self, names: Names) -> str:
        """Give the label that this thing puts on its picture."""
        return self.name if names == "things" else f"{self.colour} {self.name}"


def draw_scene(
    seed: int, index: int, settings: SceneSettings = DEFAULT_SETTINGS
) -> tuple[Image.Image, list[PlacedThing]]:
    """Draw one picture. The same arguments always give the same picture.

    Returns:
        An RGB image with sides of `settings.size`, and its things in the order in which they were drawn.

    >>> image, things = draw_scene(seed=0, index=0)
    >>> image.size, 1 <= len(things) <= 5
    ((160, 160), True)
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, index]))
    side = settings.size * SUPERSAMPLING
    canvas, behind = backdrop(settings.size, rng)
    draw = ImageDraw.Draw(canvas)
    clutter_under(draw, side, rng)
    placed = []
    for drawn, (left, top), share in _arrange(_choose_things(settings, rng), settings, rng):
        colours = seen_colours(seed, settings.unseen)[drawn.thing]
        colour = colours[int(rng.integers(len(colours)))]
        tint = shade(colour, rng)
        half = np.array([drawn.width, drawn.height]) * share / 2
        paint(draw, drawn, tint, outline_for(tint, behind, rng), (np.array([left, top]) + half) * side, share * side)
        corners = np.array([left, top, left + drawn.width * share, top + drawn.height * share]) * settings.size
        x0, y0, x1, y1 = (round(float(corner), 2) for corner in corners)
        placed.append(PlacedThing(drawn.thing, colour, (x0, y0, x1, y1), round(share, 4)))
    clutter_over(draw, side, rng)
    return grain(canvas.reduce(SUPERSAMPLING), rng), placed


def _choose_things(settings: SceneSettings, rng: np.random.Generator) -> list[str]:
    """Choose different things, each from the picture's theme with probability `co_occurrence`."""
    fewest, most = settings.things_per_picture
    theme = list(THEMES.values())[int(rng.integers(len(THEMES)))]
    chosen: list[str] = []
    for _ in range(int(rng.integers(fewest, most + 1))):
        kin = [thing for thing in theme if thing not in chosen]
        rest = [thing for thing in THINGS if thing not in chosen]
        pool = kin if kin and rng.random() < settings.co_occurrence else rest
        chosen.append(pool[int(rng.integers(len(pool)))])
    return chosen


def _arrange(things: Sequence[str], settings: SceneSettings, rng: np.random.Generator) -> Iterator[_Arranged]:
    """Find room for things, largest first: (sketch, (left, top), longer side), with the side of the picture as 1.

    A thing that fits nowhere shrinks step by step to the smallest size, and is left out if it still fits nowhere.
    """
    low, high = settings.object_size
    sizes = sorted(np.exp(rng.uniform(math.log(low), math.log(high), len(things))), reverse=True)
    boxes: list[tuple[float, float, float, float]] = []
    for thing, wanted in zip(things, sizes, strict=True):
        drawn, share = sketch(thing, rng), float(wanted)
        while (corner := _free_corner(drawn.width * share, drawn.height * share, boxes, rng)) is None and share > low:
            share = max(low, share * _SHRINK)
        if corner is not None:
            boxes.append((*corner, corner[0] + drawn.width * share, corner[1] + drawn.height * share))
            yield drawn, corner, share


def _free_corner(
    width: float, height: float, taken: Sequence[tuple[float, float, float, float]], rng: np.random.Generator
) -> tuple[float, float] | None:
    """Find left and top of a box that overlaps little with those already taken, by trying at random."""
    for left, top in rng.uniform(0, (1 - width, 1 - height), (_TRIES, 2)):
        if all(
            max(0.0, min(left + width, right) - max(left, x)) * max(0.0, min(top + height, bottom) - max(top, y))
            <= MAX_OVERLAP * min(width * height, (right - x) * (bottom - y))
            for x, y, right, bottom in taken
        ):
            return float(left), float(top)
    return None
