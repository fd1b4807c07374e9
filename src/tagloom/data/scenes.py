"""The embedded data set: pictures of things drawn by code, seeded, with nothing to download.

It is hard in the ways real pictures are hard, and each way has a knob: small things, clutter, overlap, things that
keep each other's company, and pairs of colour and thing that training never shows.
"""

import csv
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from PIL import Image, ImageDraw

from tagloom.data.scene_painting import (
    COLOURS,
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
from tagloom.data.scene_shapes import SHAPES
from tagloom.errors import DataError, RecipeError, unknown_name
from tagloom.progress import Progress, no_progress

# Things of a theme are drawn together where co-occurrence is planted.
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

MAX_OVERLAP = 0.2
"""The most that two boxes may share, as a part of the smaller one."""
DRAWING = 1
"""Number of the way things are drawn; raised with every change to it, so that an older folder is not taken for new."""

_SPLITS = ("train", "val", "test", "test_broken")
_SPLIT_STRIDE = 10**9  # each split numbers its pictures from its own start, so one's length never moves another's
_PLACING_TRIES = 16
_SHRINK = 0.85
_NAMES = ("things", "composed")

_Place: TypeAlias = tuple[Sketch, tuple[float, float], float]


@dataclass(frozen=True)
class SceneSettings:
    """What the pictures of a set have in common."""

    size: int = 160
    """Side of the pictures, in pixels."""
    things_per_picture: tuple[int, int] = (1, 5)
    """Fewest and most things in a picture, all different. One that finds no free place is left out, never the first."""
    object_size: tuple[float, float] = (0.06, 0.6)
    """Least and greatest longer side of a thing, as a share of the picture's side; spread evenly in its logarithm."""
    co_occurrence: float = 0.6
    """Probability that a thing is drawn from the picture's theme and not from all things."""
    unseen: float = 0.0
    """Share of the pairs of colour and thing that training and validation never show; the test files show all."""
    names: Literal["things", "composed"] = "things"
    """Labels are `things` ("star", 24 classes) or `composed` of colour and thing ("red star", 192 classes)."""

    def __post_init__(self) -> None:
        for name, kind, low, high in (
            ("things_per_picture", int, 1, len(THINGS)),
            ("object_size", int | float, 0.02, 0.9),
        ):
            pair = getattr(self, name)
            right = isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(value, kind) for value in pair)
            if not right or not low <= pair[0] <= pair[1] <= high:
                raise RecipeError(
                    f"{name} must be two numbers, the smaller first, from {low} to {high}, found {pair!r}."
                )
            object.__setattr__(self, name, tuple(pair))  # YAML and JSON bring a list
        for name, kind, low, high in (
            ("size", int, 32, 2048),
            ("co_occurrence", int | float, 0, 1),
            ("unseen", int | float, 0, 0.75),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind) or not low <= value <= high:
                raise RecipeError(f"{name} must be a number from {low} to {high}, found {value!r}.")
        if self.names not in _NAMES:
            raise RecipeError(unknown_name("names", str(self.names), _NAMES))


DEFAULT_SETTINGS = SceneSettings()


@dataclass(frozen=True)
class PlacedThing:
    """One labelled thing of a picture."""

    name: str
    colour: str
    box: tuple[float, float, float, float]
    """Left, top, right, bottom in pixels of the picture."""
    size: float
    """Longer side of the box as a share of the picture's side."""

    def label(self, names: Literal["things", "composed"]) -> str:
        """Give the label that this thing puts on its picture."""
        return self.name if names == "things" else f"{self.colour} {self.name}"


def scene_classes(names: Literal["things", "composed"] = "things") -> list[str]:
    """List the classes in order.

    >>> len(scene_classes()), len(scene_classes("composed")), scene_classes("composed")[0]
    (24, 192, 'red anchor')
    """
    return list(THINGS) if names == "things" else [f"{colour} {thing}" for colour, thing in PAIRS]


def unseen_pairs(seed: int, share: float) -> list[tuple[str, str]]:
    """List the pairs of colour and thing that training leaves out. Every thing is still seen in other colours."""
    return [pair for pair in PAIRS if pair[0] not in _seen_colours(seed, share)[pair[1]]]


def draw_scene(
    seed: int, index: int, settings: SceneSettings = DEFAULT_SETTINGS
) -> tuple[Image.Image, list[PlacedThing]]:
    """Draw one picture; the same three arguments always give the same one.

    Returns:
        An RGB image of `settings.size` squared, and its things in the order they were drawn.

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
        colours = _seen_colours(seed, settings.unseen)[drawn.thing]
        colour = colours[int(rng.integers(len(colours)))]
        tint = shade(colour, rng)
        half = np.array([drawn.width, drawn.height]) * share / 2
        paint(draw, drawn, tint, outline_for(tint, behind, rng), (np.array([left, top]) + half) * side, share * side)
        corners = np.array([left, top, left + drawn.width * share, top + drawn.height * share]) * settings.size
        x0, y0, x1, y1 = (round(float(corner), 2) for corner in corners)
        placed.append(PlacedThing(drawn.thing, colour, (x0, y0, x1, y1), round(share, 4)))
    clutter_over(draw, side, rng)
    return grain(canvas.reduce(SUPERSAMPLING), rng), placed


def write_scenes(
    folder: str | PathLike[str],
    *,
    train: int = 2000,
    val: int = 500,
    test: int = 500,
    settings: SceneSettings = DEFAULT_SETTINGS,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Path:
    """Write a data set: `images/*.jpg`, a CSV of labels per split, `classes.txt` and `boxes.jsonl`.

    `test.csv` is like training; in `test_broken.csv`, as long, things come independently of each other, so that what
    a tagger gains from company can be told from what it sees. A call that was interrupted is simply made again, and a
    finished folder is reused.

    Args:
        folder: Created where there is none. It must be empty or come from a call with the same arguments.
        train: Pictures to train on.
        val: Pictures to validate on.
        test: Pictures in each of the two test files.
        settings: What the pictures have in common.
        seed: Another seed gives other pictures throughout.
        progress: Called with pictures done and pictures in all, after each.

    Returns:
        The folder.
    """
    counts = dict(zip(_SPLITS, (train, val, test, test), strict=True))
    if min(counts.values()) < 0 or max(counts.values()) >= _SPLIT_STRIDE or seed < 0:
        raise RecipeError(f"train, val, test and seed cannot be negative, found {train}, {val}, {test} and {seed}.")
    root = Path(folder)
    wanted = {"drawing": DRAWING, "seed": seed, "counts": counts, "settings": asdict(settings)}
    if _is_finished(root, wanted):
        return root
    (root / "images").mkdir(parents=True, exist_ok=True)
    _write_marker(root, wanted, finished=False)
    total, done = sum(counts.values()), 0
    with (root / "boxes.jsonl").open("w", encoding="utf-8") as boxes:
        for number, (split, count) in enumerate(counts.items()):
            with (root / f"{split}.csv").open("w", encoding="utf-8", newline="") as file:
                table = csv.writer(file, lineterminator="\n")
                table.writerow(("image", "labels"))
                for i in range(count):
                    name = f"images/{split}_{i:06d}.jpg"
                    image, things = draw_scene(seed, number * _SPLIT_STRIDE + i, _for_split(settings, split))
                    image.save(root / name, quality=92)
                    table.writerow((name, "|".join(thing.label(settings.names) for thing in things)))
                    boxes.writelines(_box_line(name, thing) for thing in things)
                    done += 1
                    progress(done, total)
    (root / "classes.txt").write_text("\n".join(scene_classes(settings.names)) + "\n", encoding="utf-8")
    _write_marker(root, wanted, finished=True)
    return root


def _for_split(settings: SceneSettings, split: str) -> SceneSettings:
    if split == "test_broken":
        return replace(settings, co_occurrence=0.0, unseen=0.0)
    return replace(settings, unseen=0.0) if split == "test" else settings


def _box_line(image: str, thing: PlacedThing) -> str:
    fields = {"image": image, "thing": thing.name, "colour": thing.colour, "box": thing.box, "size": thing.size}
    return json.dumps(fields) + "\n"


def _is_finished(root: Path, wanted: dict[str, Any]) -> bool:
    """Whether the folder is already what is wanted; refuses a folder that is something else."""
    marker = root / "scenes.json"
    if not marker.exists():
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise DataError(f"{root}: is not empty and not a folder of scenes. Name another folder.")
        return False
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{marker}: cannot be read ({error}). Name another folder, or remove this one.") from error
    wanted = json.loads(json.dumps(wanted))  # tuples become lists, as in the file
    if found not in ({**wanted, "finished": True}, {**wanted, "finished": False}):
        raise DataError(f"{root}: holds scenes made with other settings. Name another folder, or remove this one.")
    return bool(found["finished"])


def _write_marker(root: Path, wanted: dict[str, Any], *, finished: bool) -> None:
    draft = root / "scenes.json.part"
    draft.write_text(json.dumps({**wanted, "finished": finished}, indent=2) + "\n", encoding="utf-8")
    draft.replace(root / "scenes.json")


@lru_cache(maxsize=64)
def _seen_colours(seed: int, unseen: float) -> dict[str, tuple[str, ...]]:
    """The colours each thing may have. Colours are left out thing by thing, so that none loses all of them."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, 2**32 - 1]))
    colours = list(COLOURS)
    seen: dict[str, tuple[str, ...]] = {}
    for number, thing in enumerate(THINGS):
        # Rounding up for some things and down for others gives the right share over all of them.
        left_out = math.floor(unseen * len(colours) * (number + 1)) - math.floor(unseen * len(colours) * number)
        kept = sorted(rng.permutation(len(colours))[left_out:])
        seen[thing] = tuple(colours[i] for i in kept)
    return seen


def _choose_things(settings: SceneSettings, rng: np.random.Generator) -> list[str]:
    """Names of different things: each from the picture's theme with the probability of co-occurrence."""
    fewest, most = settings.things_per_picture
    theme = list(THEMES.values())[int(rng.integers(len(THEMES)))]
    chosen: list[str] = []
    for _ in range(int(rng.integers(fewest, most + 1))):
        kin = [thing for thing in theme if thing not in chosen]
        rest = [thing for thing in THINGS if thing not in chosen]
        pool = kin if kin and rng.random() < settings.co_occurrence else rest
        chosen.append(pool[int(rng.integers(len(pool)))])
    return chosen


def _arrange(things: Sequence[str], settings: SceneSettings, rng: np.random.Generator) -> Iterator[_Place]:
    """Find places for things, largest first: (sketch, (left, top), longer side), the picture's side being 1.

    One that fits nowhere shrinks step by step to the least size, and is left out if even that fits nowhere.
    """
    low, high = settings.object_size
    sizes = sorted(np.exp(rng.uniform(math.log(low), math.log(high), len(things))), reverse=True)
    boxes: list[tuple[float, float, float, float]] = []
    for thing, wanted in zip(things, sizes, strict=True):
        drawn, share = sketch(thing, rng), float(wanted)
        while (place := _free_place(drawn.width * share, drawn.height * share, boxes, rng)) is None and share > low:
            share = max(low, share * _SHRINK)
        if place is not None:
            boxes.append((*place, place[0] + drawn.width * share, place[1] + drawn.height * share))
            yield drawn, place, share


def _free_place(
    width: float, height: float, taken: Sequence[tuple[float, float, float, float]], rng: np.random.Generator
) -> tuple[float, float] | None:
    """Left and top of a box that shares little with those already taken, found by trying."""
    for left, top in rng.uniform(0, (1 - width, 1 - height), (_PLACING_TRIES, 2)):
        if all(
            max(0.0, min(left + width, right) - max(left, x)) * max(0.0, min(top + height, bottom) - max(top, y))
            <= MAX_OVERLAP * min(width * height, (right - x) * (bottom - y))
            for x, y, right, bottom in taken
        ):
            return float(left), float(top)
    return None
