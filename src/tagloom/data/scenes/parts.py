"""The parts that things are drawn from: polygons and strokes, and the few shapes that make them."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Points: TypeAlias = NDArray[np.float64]
Tone: TypeAlias = Literal["main", "dark", "light", "ink"]


@dataclass(frozen=True)
class Part:
    """One polygon, or one stroke if it has a width. `ink` is the tone that contrasts most with `main`."""

    tone: Tone
    points: Points
    """(n, 2): x and y."""
    width: float = 0.0


def polygon(tone: Tone, *points: tuple[float, float]) -> Part:
    """Make a filled polygon."""
    return Part(tone, np.array(points, dtype=np.float64))


def stroke(tone: Tone, width: float, *points: tuple[float, float]) -> Part:
    """Make a line through points."""
    return Part(tone, np.array(points, dtype=np.float64), width)


def box(tone: Tone, left: float, top: float, right: float, bottom: float) -> Part:
    """Make a filled rectangle."""
    return polygon(tone, (left, top), (right, top), (right, bottom), (left, bottom))


def arc(x: float, y: float, rx: float, ry: float, start: float = 0, stop: float = 360, steps: int = 24) -> Points:
    """Give points (steps, 2) of an ellipse between two angles, in degrees clockwise from the right."""
    angles = np.radians(np.linspace(start, stop, steps, endpoint=abs(stop - start) < 360))
    return np.stack([x + rx * np.cos(angles), y + ry * np.sin(angles)], axis=1)


def disc(tone: Tone, x: float, y: float, rx: float, ry: float | None = None) -> Part:
    """Make a filled circle, or an ellipse if `ry` differs from `rx`."""
    return Part(tone, arc(x, y, rx, rx if ry is None else ry))


def ring(tone: Tone, width: float, x: float, y: float, radius: float) -> Part:
    """Make a circular line."""
    return Part(tone, arc(x, y, radius, radius, 0, 359), width)


def turned(points: Points, degrees: float, x: float = 0.0, y: float = 0.0) -> Points:
    """Turn points clockwise about the origin, then move them by x and y."""
    turn = math.radians(degrees)
    rotation = np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
    moved: Points = points @ rotation + np.array([x, y])
    return moved
