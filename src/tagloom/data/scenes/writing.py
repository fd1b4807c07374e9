"""Writing the built-in data set to a folder."""

import csv
import json
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path
from typing import Any

from tagloom.data.parsing.classes import CLASSES_FILE
from tagloom.data.scenes.drawing import PlacedThing, draw_scene
from tagloom.data.scenes.settings import DEFAULT_SETTINGS, SceneSettings, scene_classes
from tagloom.errors import DataError, RecipeError
from tagloom.files import whole_file
from tagloom.progress import Progress, no_progress

DRAWING = 1
"""Version of the drawing code. Raise it with every change, so that a folder of an older version is not reused."""

_SPLITS = ("train", "val", "test", "test_broken")
_SPLIT_STRIDE = 10**9  # each split counts its pictures from its own start, so its length does not change the others
_MARKER = "scenes.json"


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

    `test.csv` is like training. In `test_broken.csv`, of the same length, things occur independently of each other,
    which separates what a tagger gains from co-occurrence from what it sees. After an interruption, call it again; a
    finished folder is reused.

    Args:
        folder: Created if it does not exist. It must be empty, or come from a call with the same arguments.
        train: Number of pictures to train on.
        val: Number of pictures to validate on.
        test: Number of pictures in each of the two test files.
        settings: What the pictures have in common.
        seed: Another seed gives entirely different pictures.
        progress: Called after each picture.

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
    (root / CLASSES_FILE).write_text("\n".join(scene_classes(settings.names)) + "\n", encoding="utf-8")
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
    """Whether the folder already holds exactly what is wanted; a folder with anything else is refused."""
    marker = root / _MARKER
    if not marker.exists():
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise DataError(f"{root}: is not empty and not a folder of scenes. Choose another folder.")
        return False
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{marker}: cannot be read ({error}). Choose another folder, or remove this one.") from error
    wanted = json.loads(json.dumps(wanted))  # tuples become lists, as in the file
    if found not in ({**wanted, "finished": True}, {**wanted, "finished": False}):
        raise DataError(
            f"{root}: contains scenes drawn with other settings. Choose another folder, or remove this one."
        )
    return bool(found["finished"])


def _write_marker(root: Path, wanted: dict[str, Any], *, finished: bool) -> None:
    with whole_file(root / _MARKER) as partial:
        partial.write_text(json.dumps({**wanted, "finished": finished}, indent=2) + "\n", encoding="utf-8")
