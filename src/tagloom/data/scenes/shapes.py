"""The twenty-four things of the built-in data set.

A thing is a function from a random generator to parts. Coordinates are free, about -1 to 1 with y downwards: the
painter measures the parts and scales them. The generator varies what differs between two boats; the painter varies
rotation, stretching, size and colour.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from tagloom.data.scenes.parts import Part, arc, box, disc, polygon, ring, stroke, turned

Rng: TypeAlias = np.random.Generator


@dataclass(frozen=True)
class Shape:
    """How a thing looks, and how far it may lean to either side, in degrees."""

    parts: Callable[[Rng], list[Part]]
    lean: float = 20.0


def _boat(rng: Rng) -> list[Part]:
    tip = rng.uniform(-1.0, -0.75)
    parts = [
        stroke("ink", 0.07, (0, 0.4), (0, tip)),
        polygon("light", (0.08, tip + 0.05), (0.08, 0.25), (rng.uniform(0.65, 0.85), 0.25)),
        polygon("main", (-1, 0.35), (1, 0.35), (0.65, 0.9), (-0.65, 0.9)),
    ]
    if rng.random() < 0.6:
        parts.insert(1, polygon("light", (-0.08, tip + 0.25), (-0.08, 0.25), (-0.6, 0.25)))
    return parts


def _fish(rng: Rng) -> list[Part]:
    plump = rng.uniform(0.38, 0.6)
    parts = [
        polygon("dark", (0.45, 0), (1, -0.5), (0.88, 0), (1, 0.5)),
        polygon("dark", (-0.25, -plump * 0.8), (0.1, -plump - 0.25), (0.3, -plump * 0.6)),
        disc("main", -0.2, 0, 0.75, plump),
        disc("light", -0.6, -0.1, 0.13),
        disc("ink", -0.6, -0.1, 0.06),
    ]
    if rng.random() < 0.5:
        parts += [stroke("dark", 0.08, *((x, y * plump) for x, y in arc(-0.5, 0, 0.3, 0.6, -60, 60, 8)))]
    return parts


def _anchor(rng: Rng) -> list[Part]:
    width, reach = rng.uniform(0.16, 0.22), rng.uniform(0.65, 0.8)
    parts = [
        ring("main", width * 0.8, 0, -0.82, 0.17),
        stroke("main", width, (0, -0.65), (0, 0.85)),
        stroke("main", width, (-0.42, -0.42), (0.42, -0.42)),
        Part("main", arc(0, 0.2, reach, 0.7, 10, 170, 16), width),
    ]
    for side in (-1, 1):
        tip = side * (reach + 0.04)
        parts.append(polygon("main", (tip, -0.08), (tip + side * 0.12, 0.42), (tip - side * 0.36, 0.36)))
    return parts


def _umbrella(rng: Rng) -> list[Part]:
    scallops = int(rng.integers(3, 5))
    edge = np.linspace(1, -1, scallops + 1)
    hem = [arc((a + b) / 2, 0.05, (a - b) / 2, 0.16, 0, -180, 7) for a, b in pairwise(edge)]
    canopy = np.concatenate([arc(0, 0.05, 1, 0.95, 180, 360, 18), *hem])
    ribs = [stroke("dark", 0.05, (0, -0.88), (float(x), 0.0)) for x in edge[1:-1]]
    hook = arc(0.17, 0.8, 0.17, 0.17, 180, 10, 8)
    return [
        Part("ink", np.concatenate([[(0.0, -1.05), (0.0, 0.8)], hook]), 0.09),
        Part("main", canopy),
        *ribs,
    ]


def _star(rng: Rng) -> list[Part]:
    tips, inner = int(rng.choice([5, 5, 5, 6])), rng.uniform(0.38, 0.48)
    outline = arc(0, 0, 1, 1, -90, 270, 2 * tips)
    outline[1::2] *= inner
    return [Part("main", outline)]


def _moon(rng: Rng) -> list[Part]:
    depth = rng.uniform(0.35, 0.6)
    outer = arc(0, 0, 1, 1, 60, 300, 24)
    inner = arc(0.5, 0, 1 - depth, math.sin(math.radians(60)), 270, 90, 16)
    return [Part("main", np.concatenate([outer, inner]))]


def _cloud(rng: Rng) -> list[Part]:
    puffs = [disc("main", x, y + rng.uniform(-0.08, 0.08), r) for x, y, r in ((-0.55, 0.1, 0.38), (0.6, 0.12, 0.36))]
    top = rng.uniform(-0.2, 0.2)
    return [
        *puffs,
        disc("main", top, -0.18, 0.5),
        Part("main", np.concatenate([arc(-0.62, 0.28, 0.3, 0.24, 90, 270, 9), arc(0.65, 0.28, 0.3, 0.24, -90, 90, 9)])),
        Part("light", arc(top, -0.16, 0.32, 0.32, 200, 300, 9), 0.08),
    ]


def _rocket(rng: Rng) -> list[Part]:
    waist = rng.uniform(0.28, 0.38)
    body = np.concatenate([arc(0, 0, waist, 1.0, 180, 360, 18), [(waist * 0.75, 0.55), (-waist * 0.75, 0.55)]])
    flame = rng.uniform(0.85, 1.1)
    return [
        polygon("light", (-0.2, 0.55), (0.2, 0.55), (0, flame)),
        *(polygon("dark", (x * waist * 0.9, 0), (x * 0.72, 0.75), (x * waist * 0.7, 0.55)) for x in (-1, 1)),
        Part("main", body),
        disc("light", 0, -0.28, 0.17),
        ring("ink", 0.06, 0, -0.28, 0.17),
    ]


def _flower(rng: Rng) -> list[Part]:
    petals = int(rng.integers(5, 8))
    petal = arc(0, -0.52, rng.uniform(0.25, 0.32), 0.4, steps=14)
    head = [Part("main", turned(petal, 360 * i / petals, 0, -0.25)) for i in range(petals)]
    stem = [
        stroke("dark", 0.1, (0, 0), (0, 1.6)),
        Part("dark", turned(arc(0.33, 0, 0.33, 0.14, steps=12), -25, 0.0, 1.25)),
    ]
    return [*stem, *head, disc("light", 0, -0.25, 0.3), disc("ink", 0, -0.25, 0.12)]


def _tree(rng: Rng) -> list[Part]:
    trunk = box("ink", -0.12, 0.3, 0.12, 1.0)
    if rng.random() < 0.5:
        tiers = ((-1.0, -0.3, 0.45), (-0.65, 0.2, 0.62), (-0.2, 0.7, 0.8))
        return [trunk, *(polygon("main", (0, top), (wide, low), (-wide, low)) for top, low, wide in reversed(tiers))]
    leaves = ((-0.38, -0.1, 0.42), (0.38, -0.1, 0.42), (0.0, -0.5, 0.5), (0.0, 0.05, 0.4))
    shifts = rng.uniform(-0.06, 0.06, (4, 2))
    return [trunk, *(disc("main", x + dx, y + dy, r) for (x, y, r), (dx, dy) in zip(leaves, shifts, strict=True))]


def _mushroom(rng: Rng) -> list[Part]:
    stem = rng.uniform(0.2, 0.3)
    spots = ((-0.5, -0.25, 0.14), (0.05, -0.55, 0.17), (0.5, -0.2, 0.13))
    return [
        polygon("light", (-stem, -0.1), (stem, -0.1), (stem * 1.35, 0.95), (-stem * 1.35, 0.95)),
        Part(
            "main",
            np.concatenate([arc(0, 0.05, 1, rng.uniform(0.85, 1.0), 180, 360, 20), [(0.6, 0.16), (-0.6, 0.16)]]),
        ),
        *(disc("light", x, y, r) for x, y, r in spots),
    ]


def _butterfly(rng: Rng) -> list[Part]:
    upper, lower = rng.uniform(0.42, 0.5), rng.uniform(0.28, 0.36)
    parts = []
    for side in (-1, 1):
        parts += [
            Part("main", turned(arc(0, 0, 0.36, upper, steps=16), side * 40, side * 0.45, -0.35)),
            Part("main", turned(arc(0, 0, 0.3, lower, steps=14), side * 140, side * 0.36, 0.38)),
            disc("light", side * 0.5, -0.38, 0.15),
            stroke("ink", 0.05, (0, -0.45), (side * 0.2, -0.9)),
        ]
    return [*parts, disc("ink", 0, 0, 0.09, 0.6)]


def _car(rng: Rng) -> list[Part]:
    roof, back = rng.uniform(-0.6, -0.45), rng.uniform(-0.6, -0.45)
    parts = [
        polygon("main", (back - 0.12, 0), (back + 0.15, roof), (0.3, roof), (0.62, 0)),
        polygon("main", (-1, 0.0), (0.8, -0.02), (1, 0.15), (1, 0.42), (-1, 0.42)),
        polygon("light", (back + 0.1, -0.04), (back + 0.24, roof + 0.1), (-0.1, roof + 0.1), (-0.1, -0.04)),
        polygon("light", (0.0, -0.04), (0.0, roof + 0.1), (0.24, roof + 0.1), (0.44, -0.04)),
    ]
    for x in (-0.55, 0.55):
        parts += [disc("ink", x, 0.42, 0.25), disc("light", x, 0.42, 0.11)]
    return parts


def _house(rng: Rng) -> list[Part]:
    door = rng.uniform(-0.4, 0.2)
    parts = [
        box("main", -0.75, -0.15, 0.75, 0.9),
        polygon("dark", (-1, -0.1), (0, -1), (1, -0.1)),
        box("ink", door - 0.15, 0.35, door + 0.15, 0.9),
        box("light", 0.38, 0.1, 0.62, 0.38),
    ]
    if rng.random() < 0.5:
        parts.insert(0, box("dark", 0.42, -0.95, 0.65, -0.3))
    if door > -0.2:
        parts.append(box("light", -0.62, 0.1, -0.38, 0.38))
    return parts


def _ladder(rng: Rng) -> list[Part]:
    rungs, spread = int(rng.integers(4, 7)), rng.uniform(0.0, 0.12)
    heights = np.linspace(-0.75, 0.75, rungs)
    half = 0.36 + spread * heights
    return [
        *(stroke("main", 0.12, (-w, y), (w, y)) for y, w in zip(heights, half, strict=True)),
        *(stroke("main", 0.15, (side * (0.36 - spread), -1), (side * (0.36 + spread), 1)) for side in (-1, 1)),
    ]


def _bicycle(rng: Rng) -> list[Part]:
    radius = rng.uniform(0.38, 0.44)
    back, front, pedal, saddle, bar = (-0.58, 0.3), (0.58, 0.3), (-0.08, 0.3), (-0.25, -0.3), (0.4, -0.3)
    return [
        *(ring("ink", 0.1, x, y, radius) for x, y in (back, front)),
        stroke("main", 0.11, back, saddle, pedal, back),
        stroke("main", 0.11, saddle, bar, pedal),
        stroke("main", 0.11, front, bar, (0.34, -0.52)),
        stroke("main", 0.11, saddle, (-0.29, -0.46)),
        stroke("ink", 0.13, (-0.44, -0.48), (-0.14, -0.48)),
        stroke("ink", 0.11, (0.2, -0.56), (0.5, -0.5)),
    ]


def _cup(rng: Rng) -> list[Part]:
    foot = rng.uniform(0.38, 0.55)
    parts = [
        Part("main", arc(0.55, 0.1, 0.38, 0.34, -100, 100, 14), 0.15),
        polygon("main", (-0.65, -0.4), (0.65, -0.4), (foot, 0.75), (-foot, 0.75)),
        disc("light", 0, -0.4, 0.65, 0.15),
        disc("ink", 0, -0.38, 0.5, 0.08),
    ]
    if rng.random() < 0.5:
        parts += [stroke("light", 0.07, (x, -0.65), (x + 0.1, -0.8), (x, -0.95)) for x in (-0.2, 0.15)]
    return parts


def _clock(rng: Rng) -> list[Part]:
    hour, minute = rng.uniform(0, 360, 2)
    hands = [turned(np.array([(0.0, 0.0), (0.0, -length)]), turn) for length, turn in ((0.4, hour), (0.6, minute))]
    ticks = [Part("ink", turned(np.array([(0.0, -0.62), (0.0, -0.74)]), 30 * i), 0.07) for i in range(0, 12, 3)]
    return [
        disc("main", 0, 0, 1),
        disc("light", 0, 0, 0.8),
        *ticks,
        Part("ink", hands[0], 0.13),
        Part("ink", hands[1], 0.09),
        disc("main", 0, 0, 0.1),
    ]


def _key(rng: Rng) -> list[Part]:
    teeth = [0.55, 0.78] if rng.random() < 0.5 else [0.5, 0.68, 0.86]
    return [
        ring("main", 0.18, -0.62, 0, 0.28),
        stroke("main", 0.16, (-0.32, 0), (1, 0)),
        *(stroke("main", 0.13, (x, 0), (x, float(rng.uniform(0.22, 0.34)))) for x in teeth),
    ]


def _candle(rng: Rng) -> list[Part]:
    top, half = rng.uniform(-0.35, -0.1), rng.uniform(0.18, 0.26)
    flame = np.array([(0.0, -0.62), (0.15, -0.3), (0.1, -0.1), (-0.1, -0.1), (-0.15, -0.3)])
    parts = [
        stroke("ink", 0.05, (0, top), (0, top - 0.2)),
        Part("light", np.add(flame, (0.0, top))),
        box("main", -half, top, half, 0.8),
        disc("dark", 0, top, half, 0.06),
    ]
    if rng.random() < 0.6:
        parts += [disc("dark", 0, 0.85, 0.55, 0.13), Part("dark", arc(0.6, 0.75, 0.14, 0.14, -120, 120, 9), 0.08)]
    return parts


def _balloon(rng: Rng) -> list[Part]:
    sway = rng.uniform(0.08, 0.16) * rng.choice([-1, 1])
    heights = np.linspace(0.55, 1.7, 9)
    string = np.stack([sway * np.sin((heights - 0.55) * 5), heights], axis=1)
    return [
        Part("ink", string, 0.05),
        polygon("dark", (0, 0.42), (0.14, 0.62), (-0.14, 0.62)),
        disc("main", 0, -0.25, 0.62, rng.uniform(0.72, 0.8)),
        Part("light", arc(0, -0.3, 0.4, 0.5, 195, 255, 7), 0.1),
    ]


def _gift(rng: Rng) -> list[Part]:
    band = rng.uniform(0.12, 0.18)
    loops = [Part("light", turned(arc(0, 0, 0.32, 0.15, steps=12), side * 25, side * 0.28, -0.62)) for side in (-1, 1)]
    return [
        *loops,
        box("main", -0.72, -0.2, 0.72, 0.9),
        box("dark", -0.82, -0.48, 0.82, -0.15),
        box("light", -band, -0.48, band, 0.9),
        disc("ink", 0, -0.52, 0.1),
    ]


def _crown(rng: Rng) -> list[Part]:
    dip, middle = rng.uniform(-0.1, 0.1), rng.uniform(-0.8, -0.6)
    tips = ((-0.95, -0.5), (0.0, middle), (0.95, -0.5))
    outline = [(-0.75, 0.65), tips[0], (-0.42, dip), tips[1], (0.42, dip), tips[2], (0.75, 0.65)]
    return [
        polygon("main", *outline),
        box("dark", -0.75, 0.42, 0.75, 0.68),
        *(disc("main", x, y, 0.13) for x, y in tips),
        *(disc("light", x, 0.55, 0.08) for x in (-0.45, 0.0, 0.45)),
    ]


def _heart(rng: Rng) -> list[Part]:
    t = np.linspace(0, 2 * np.pi, 36, endpoint=False)
    x = np.sin(t) ** 3
    y = -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)) / 16
    parts = [Part("main", np.stack([x, y], axis=1))]
    if rng.random() < 0.4:
        parts.append(Part("light", arc(-0.45, -0.3, 0.26, 0.26, 170, 270, 7), 0.1))
    return parts


SHAPES: dict[str, Shape] = {
    "anchor": Shape(_anchor, lean=30),
    "balloon": Shape(_balloon),
    "bicycle": Shape(_bicycle, lean=15),
    "boat": Shape(_boat, lean=15),
    "butterfly": Shape(_butterfly, lean=60),
    "candle": Shape(_candle, lean=12),
    "car": Shape(_car, lean=15),
    "clock": Shape(_clock, lean=30),
    "cloud": Shape(_cloud, lean=10),
    "crown": Shape(_crown),
    "cup": Shape(_cup),
    "fish": Shape(_fish, lean=35),
    "flower": Shape(_flower, lean=25),
    "gift": Shape(_gift),
    "heart": Shape(_heart, lean=30),
    "house": Shape(_house, lean=10),
    "key": Shape(_key, lean=180),
    "ladder": Shape(_ladder, lean=40),
    "moon": Shape(_moon, lean=40),
    "mushroom": Shape(_mushroom),
    "rocket": Shape(_rocket, lean=60),
    "star": Shape(_star, lean=180),
    "tree": Shape(_tree, lean=8),
    "umbrella": Shape(_umbrella, lean=30),
}
