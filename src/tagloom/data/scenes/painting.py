"""Painting the built-in data set: colours, backdrops, clutter and things.

Everything is drawn on a canvas with twice the side of the picture, and halved at the end for smooth edges.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from tagloom.data.scenes.parts import Part, Tone, turned
from tagloom.data.scenes.shapes import SHAPES, Rng

Rgb: TypeAlias = tuple[int, int, int]
Weights: TypeAlias = NDArray[np.float64]

SUPERSAMPLING = 2
COLOURS: dict[str, Rgb] = {
    "red": (212, 42, 38),
    "orange": (238, 132, 28),
    "yellow": (242, 212, 48),
    "green": (58, 156, 66),
    "blue": (48, 92, 204),
    "purple": (138, 62, 172),
    "white": (243, 243, 240),
    "black": (38, 38, 42),
}
_WHITE, _BLACK = (255, 255, 255), (16, 16, 20)


@dataclass(frozen=True)
class Sketch:
    """A thing ready to be drawn: its parts around the origin, scaled so that the longer side of their box is 1."""

    thing: str
    parts: list[Part]
    width: float
    height: float


def sketch(thing: str, rng: Rng) -> Sketch:
    """Vary a thing: mirror it, stretch it, lean it and jitter its corners a little."""
    shape = SHAPES[thing]
    stretch = np.exp(rng.uniform(-0.16, 0.16))
    scale = np.array([stretch * rng.choice([-1, 1]), 1 / stretch])
    lean = rng.uniform(-shape.lean, shape.lean)
    parts = [
        Part(part.tone, turned(part.points * scale, lean) + rng.uniform(-0.015, 0.015, part.points.shape), part.width)
        for part in shape.parts(rng)
    ]
    low = np.min([part.points.min(axis=0) - part.width / 2 for part in parts], axis=0)
    high = np.max([part.points.max(axis=0) + part.width / 2 for part in parts], axis=0)
    longer, centre = float((high - low).max()), (low + high) / 2
    width, height = (high - low) / longer
    return Sketch(
        thing,
        [Part(part.tone, (part.points - centre) / longer, part.width / longer) for part in parts],
        float(width),
        float(height),
    )


def paint(
    draw: ImageDraw.ImageDraw, drawn: Sketch, colour: Rgb, outline: Rgb | None, centre: NDArray[np.float64], side: float
) -> None:
    """Draw a sketch with its centre (x, y) and its longer side in canvas pixels.

    The outline is drawn first and wider, so that it surrounds the whole thing and not each of its parts.
    """
    tones = _tones(colour)
    placed = [
        (part, [(float(x), float(y)) for x, y in part.points * side + centre], max(1.0, part.width * side))
        for part in drawn.parts
    ]
    if outline is not None:
        rim = 2 * max(1.0, 0.012 * side)
        for part, points, width in placed:
            if part.width:
                draw.line(points, outline, round(width + rim), joint="curve")
            else:
                draw.line([*points, points[0]], outline, round(rim), joint="curve")
    for part, points, width in placed:
        if part.width:
            draw.line(points, tones[part.tone], round(width), joint="curve")
        else:
            draw.polygon(points, tones[part.tone])


def shade(colour: str, rng: Rng) -> Rgb:
    """Draw one of the many shades of a colour."""
    return _clip(np.array(COLOURS[colour]) * rng.uniform(0.92, 1.06) + rng.uniform(-10, 10, 3))


def outline_for(colour: Rgb, behind: Rgb, rng: Rng) -> Rgb | None:
    """Choose an outline that contrasts with the backdrop. If the colour itself does, half the things have none."""
    distinct = np.abs(np.subtract(colour, behind)).sum() > 200
    if distinct and rng.random() < 0.5:
        return None
    return _BLACK if _luminance(behind) > 110 else _WHITE


def backdrop(side: int, rng: Rng) -> tuple[Image.Image, Rgb]:
    """Make a canvas of two muted colours mixed by one of six patterns; also give the mean of the two."""
    pattern = _PATTERNS[int(rng.integers(len(_PATTERNS)))]
    grey = rng.uniform(50, 235)
    first = _clip(grey + rng.uniform(-35, 35, 3))
    second = _clip(np.add(first, rng.uniform(20, 60) * rng.choice([-1, 1]) + rng.uniform(-20, 20, 3)))
    weights = Image.fromarray((255 * pattern(side, rng)).astype(np.uint8))
    mixed = Image.composite(Image.new("RGB", (side, side), first), Image.new("RGB", (side, side), second), weights)
    canvas = mixed.resize((side * SUPERSAMPLING,) * 2, Image.Resampling.NEAREST)
    return canvas, _clip(np.add(first, second) / 2)


def clutter_under(draw: ImageDraw.ImageDraw, side: int, rng: Rng) -> None:
    """Scatter meaningless patches and strokes, in the same colours as things."""
    names = list(COLOURS)
    for _ in range(int(rng.integers(3, 11))):
        colour = shade(names[int(rng.integers(len(names)))], rng)
        reach = side * rng.uniform(0.02, 0.11)
        corners = rng.uniform(-reach, reach, (int(rng.integers(2, 6)), 2)) + rng.uniform(0, side, 2)
        points = [(float(x), float(y)) for x, y in corners]
        kind = rng.random()
        if kind < 0.35 and len(points) > 2:
            draw.polygon(points, colour)
        elif kind < 0.6:
            (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
            draw.ellipse((left, top, right, bottom), colour)
        else:
            draw.line(points, colour, max(2, round(reach * rng.uniform(0.05, 0.3))), joint="curve")


def clutter_over(draw: ImageDraw.ImageDraw, side: int, rng: Rng) -> None:
    """Draw up to three thin lines over everything."""
    for _ in range(int(rng.integers(0, 4))):
        grey = int(rng.integers(20, 236))
        ends = rng.uniform(0, side, (2, 2))
        draw.line([(float(x), float(y)) for x, y in ends], (grey, grey, grey), 2)


def grain(image: Image.Image, rng: Rng) -> Image.Image:
    """Add up to ten levels of noise to every pixel, like a poor sensor."""
    level = int(rng.integers(0, 11))
    noise = rng.integers(-level, level + 1, (image.height, image.width, 3), dtype=np.int16)
    return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))


def _tones(colour: Rgb) -> dict[Tone, Rgb]:
    main = np.array(colour, dtype=np.float64)
    if _luminance(colour) < 70:  # near black, where a darker tone would not be visible
        return {"main": colour, "dark": _clip(main + 55), "light": (196, 196, 204), "ink": (236, 236, 236)}
    light = (198, 208, 226) if min(colour) > 200 else _clip(main * 0.3 + 255 * 0.7)
    return {"main": colour, "dark": _clip(main * 0.62), "light": light, "ink": _BLACK}


def _luminance(colour: Rgb) -> float:
    return 0.3 * colour[0] + 0.59 * colour[1] + 0.11 * colour[2]


def _clip(values: NDArray[np.float64]) -> Rgb:
    red, green, blue = (int(value) for value in np.clip(values, 0, 255))
    return red, green, blue


# Patterns: weights (side, side) from 0 to 1 that mix the two colours of a backdrop.


def _along(side: int, degrees: float) -> Weights:
    """Give the coordinate of each pixel along one direction, with the side of the picture as 1."""
    steps = np.linspace(-0.5, 0.5, side)
    turn = np.radians(degrees)
    return float(np.sin(turn)) * steps[:, None] + float(np.cos(turn)) * steps


def _plain(side: int, _: Rng) -> Weights:
    return np.ones((side, side))


def _gradient(side: int, rng: Rng) -> Weights:
    return np.clip(_along(side, rng.uniform(0, 360)) + 0.5, 0, 1)


def _stripes(side: int, rng: Rng) -> Weights:
    return np.floor(_along(side, rng.uniform(0, 360)) * rng.uniform(4, 24)) % 2


def _checks(side: int, rng: Rng) -> Weights:
    turn, number = rng.uniform(0, 90), rng.uniform(4, 20)
    return (np.floor(_along(side, turn) * number) + np.floor(_along(side, turn + 90) * number)) % 2


def _smooth_noise(side: int, cells: int, rng: Rng) -> NDArray[np.uint8]:
    """Enlarge random cells to (side, side), from 0 to 255."""
    coarse = Image.fromarray(rng.integers(0, 256, (cells, cells), dtype=np.uint8))
    return np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC))


def _noise(side: int, rng: Rng) -> Weights:
    return _smooth_noise(side, int(rng.integers(4, 50)), rng) / 255


def _blobs(side: int, rng: Rng) -> Weights:
    return (_smooth_noise(side, int(rng.integers(4, 12)), rng) > 128).astype(np.float64)


_PATTERNS: tuple[Callable[[int, Rng], Weights], ...] = (_plain, _gradient, _stripes, _checks, _noise, _blobs)
