"""The built-in data set: the same every time, and each setting does what it says."""

import csv
import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from tagloom.data.images import find_images
from tagloom.data.scenes import (
    MAX_OVERLAP,
    THEMES,
    THINGS,
    PlacedThing,
    SceneSettings,
    draw_scene,
    drawing,
    painting,
    scene_classes,
    unseen_pairs,
    write_scenes,
    writing,
)
from tagloom.errors import DataError, RecipeError

SMALL = SceneSettings(size=64)


def things_of(count: int, settings: SceneSettings, seed: int = 0) -> list[list[PlacedThing]]:
    return [draw_scene(seed, index, settings)[1] for index in range(count)]


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# The drawing


def test_themes_hold_every_thing_once() -> None:
    assert sorted(thing for theme in THEMES.values() for thing in theme) == list(THINGS)
    assert len(THINGS) == 24


@pytest.mark.parametrize("thing", THINGS)
def test_every_thing_is_drawn_in_its_box_in_its_colour_and_never_twice_alike(thing: str) -> None:
    rng = np.random.default_rng(0)
    looks = set()
    for _ in range(5):
        drawn = painting.sketch(thing, rng)
        assert max(drawn.width, drawn.height) == pytest.approx(1)
        assert min(drawn.width, drawn.height) > 0.15
        canvas = Image.new("RGB", (200, 200), (1, 255, 1))
        painting.paint(ImageDraw.Draw(canvas), drawn, (200, 30, 180), None, np.array([100.0, 100.0]), 160)
        pixels = np.asarray(canvas)
        inked = (pixels != (1, 255, 1)).any(axis=2)
        rows, columns = np.flatnonzero(inked.any(axis=1)), np.flatnonzero(inked.any(axis=0))
        assert abs(columns[-1] - columns[0] + 1 - 160 * drawn.width) < 14  # a stroke's end is not round
        assert abs(rows[-1] - rows[0] + 1 - 160 * drawn.height) < 14
        main = (pixels == (200, 30, 180)).all(axis=2).sum()
        assert main / inked.sum() > 0.2
        looks.add(canvas.tobytes())
    assert len(looks) == 5


def test_outlines_always_show_what_has_the_colour_of_its_backdrop() -> None:
    rng = np.random.default_rng(0)
    for behind in ((40, 40, 44), (130, 130, 130), (240, 240, 240)):
        for _ in range(20):
            outline = painting.outline_for(behind, behind, rng)
            assert outline is not None
            assert np.abs(np.subtract(outline, behind)).sum() > 250


def test_all_six_patterns_of_backdrop_come_and_mix_from_none_to_all() -> None:
    rng = np.random.default_rng(0)
    for pattern in painting._PATTERNS:
        weights = pattern(50, rng)
        assert weights.shape == (50, 50)
        assert 0 <= weights.min() <= weights.max() <= 1
        assert weights.max() > 0.7
        assert (weights.min() < 0.3) == (pattern is not painting._plain)


# Determinism


def test_a_scene_depends_on_seed_index_and_settings_and_on_nothing_else() -> None:
    first = {index: draw_scene(3, index, SMALL) for index in range(6)}
    np.random.seed(1)
    again = {index: draw_scene(3, index, SMALL) for index in reversed(range(6))}
    for index in range(6):
        assert first[index][0].tobytes() == again[index][0].tobytes()
        assert first[index][1] == again[index][1]
    different = [draw_scene(4, 0, SMALL), draw_scene(3, 1, SMALL), draw_scene(3, 0, replace(SMALL, co_occurrence=0.1))]
    assert len({image.tobytes() for image, _ in [first[0], *different]}) == 4


# The settings


def test_pictures_show_the_number_of_things_asked_for_all_different() -> None:
    pictures = things_of(150, replace(SMALL, things_per_picture=(2, 4)))
    counts = [len(things) for things in pictures]
    assert set(counts) == {2, 3, 4}
    assert all(len({thing.name for thing in things}) == len(things) for things in pictures)


def test_sizes_fill_the_range_and_stay_in_it_and_boxes_in_the_picture() -> None:
    sizes = []
    for things in things_of(200, replace(SMALL, object_size=(0.1, 0.4))):
        for thing in things:
            left, top, right, bottom = thing.box
            assert -0.01 <= left < right <= 64.01
            assert -0.01 <= top < bottom <= 64.01
            assert max(right - left, bottom - top) / 64 == pytest.approx(thing.size, abs=1e-3)
            sizes.append(thing.size)
    assert 0.1 <= min(sizes) < 0.12
    assert 0.35 < max(sizes) <= 0.4
    assert 0.17 < np.median(sizes) < 0.23  # the geometric middle: as many small as large


def test_things_overlap_but_only_a_little() -> None:
    overlaps = []
    for things in things_of(200, replace(SMALL, object_size=(0.2, 0.6))):
        for one, other in combinations(things, 2):
            low = np.maximum(one.box[:2], other.box[:2])
            high = np.minimum(one.box[2:], other.box[2:])
            areas = [(t.box[2] - t.box[0]) * (t.box[3] - t.box[1]) for t in (one, other)]
            overlaps.append(np.prod(np.clip(high - low, 0, None)) / min(areas))
    assert max(overlaps) <= MAX_OVERLAP + 0.01
    assert max(overlaps) > 0.1


def test_things_without_room_are_left_out_but_never_the_first() -> None:
    crowded = things_of(30, replace(SMALL, object_size=(0.6, 0.6), things_per_picture=(5, 5)))
    assert {len(things) for things in crowded} <= {1, 2, 3, 4}
    assert min(len(things) for things in crowded) >= 1


def share_of_kin(pictures: list[list[PlacedThing]]) -> float:
    """Of all pairs of things in one picture, those of one theme."""
    theme = {thing: name for name, things in THEMES.items() for thing in things}
    pairs = [theme[a.name] == theme[b.name] for things in pictures for a, b in combinations(things, 2)]
    return float(np.mean(pairs))


def test_the_co_occurrence_setting_goes_from_independent_to_themes() -> None:
    # Only what is chosen matters here, so nothing is drawn: far more pictures in far less time.
    def chosen(co_occurrence: float) -> list[list[PlacedThing]]:
        settings = SceneSettings(co_occurrence=co_occurrence, things_per_picture=(3, 3))
        return [
            [PlacedThing(name, "red", (0, 0, 1, 1), 0.1) for name in drawing._choose_things(settings, rng)]
            for rng in map(np.random.default_rng, range(1500))
        ]

    independent, half, full = (share_of_kin(chosen(value)) for value in (0.0, 0.5, 1.0))
    assert independent == pytest.approx(3 / 23, abs=0.02)  # of the 23 other things, 3 are of one's own theme
    assert full == 1.0
    assert independent + 0.15 < half < full - 0.4
    names = [thing.name for things in chosen(0.6) for thing in things]
    frequency = np.array([names.count(thing) for thing in THINGS]) / 1500
    assert np.abs(frequency - 3 / 24).max() < 0.035  # themes make things co-occur, not rare


def test_drawn_pictures_show_the_co_occurrence_that_was_planted() -> None:
    tied, loose = (share_of_kin(things_of(120, replace(SMALL, co_occurrence=value))) for value in (0.9, 0.0))
    assert tied > 0.5
    assert loose < 0.25


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.1, 0.25, 0.75])
def test_unseen_pairs_are_the_share_asked_for_and_leave_every_thing_some_colour(seed: int, share: float) -> None:
    left_out = unseen_pairs(seed, share)
    assert len(left_out) / 192 == pytest.approx(share, abs=1 / 192)
    for thing in THINGS:
        assert sum(pair[1] == thing for pair in left_out) <= len(painting.COLOURS) - 2


def test_unseen_pairs_are_never_drawn_and_others_are() -> None:
    left_out = set(unseen_pairs(0, 0.5))
    drawn = {(t.colour, t.name) for things in things_of(200, replace(SMALL, unseen=0.5)) for t in things}
    assert not drawn & left_out
    assert len(drawn) > 85
    assert unseen_pairs(0, 0.0) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"size": 8},
        {"size": 64.5},
        {"things_per_picture": (0, 3)},
        {"things_per_picture": (3, 2)},
        {"things_per_picture": (1, 2.5)},
        {"object_size": (0.5, 1.5)},
        {"object_size": 0.3},
        {"object_size": ("a", "b")},
        {"co_occurrence": -0.1},
        {"co_occurrence": "high"},
        {"unseen": 0.95},
        {"names": "thing"},
    ],
)
def test_wrong_settings_are_refused_by_name(fields: dict[str, object]) -> None:
    with pytest.raises(RecipeError, match=next(iter(fields))):
        SceneSettings(**fields)  # type: ignore[arg-type]


# Writing


def test_a_written_folder_holds_what_was_drawn(tmp_path: Path) -> None:
    settings = replace(SMALL, names="composed", unseen=0.5)
    steps: list[tuple[int, int]] = []
    folder = write_scenes(
        tmp_path / "set", train=5, val=3, test=2, settings=settings, seed=7, progress=lambda *step: steps.append(step)
    )
    assert steps == [(done, 12) for done in range(1, 13)]
    assert (folder / "classes.txt").read_text().splitlines() == scene_classes("composed")
    lengths = {split: len(read_csv(folder / f"{split}.csv")) for split in ("train", "val", "test", "test_broken")}
    assert lengths == {"train": 5, "val": 3, "test": 2, "test_broken": 2}
    boxes = [json.loads(line) for line in (folder / "boxes.jsonl").read_text().splitlines()]
    for split in lengths:
        for row in read_csv(folder / f"{split}.csv"):
            mine = [box for box in boxes if box["image"] == row["image"]]
            assert row["labels"].split("|") == [f"{box['colour']} {box['thing']}" for box in mine]
    image, things = draw_scene(7, 4, settings)
    with Image.open(folder / "images" / "train_000004.jpg") as saved:
        assert np.abs(np.asarray(saved, dtype=int) - np.asarray(image, dtype=int)).mean() < 12
    assert read_csv(folder / "train.csv")[4]["labels"] == "|".join(thing.label("composed") for thing in things)
    assert len(find_images(folder)) == 12


def test_the_length_of_one_split_does_not_change_another(tmp_path: Path) -> None:
    short = write_scenes(tmp_path / "short", train=1, val=2, test=1, settings=SMALL)
    long = write_scenes(tmp_path / "long", train=4, val=2, test=1, settings=SMALL)
    for name in ("val.csv", "test.csv", "test_broken.csv"):
        assert (short / name).read_bytes() == (long / name).read_bytes()
    rows = [row["labels"] for name in ("train", "val", "test", "test_broken") for row in read_csv(long / f"{name}.csv")]
    assert len(set(rows)) > 4


def test_test_files_show_all_pairs_and_the_broken_one_no_themes(tmp_path: Path) -> None:
    settings = replace(SMALL, co_occurrence=1.0, unseen=0.5, things_per_picture=(3, 3))
    assert writing._for_split(settings, "train") == writing._for_split(settings, "val") == settings
    folder = write_scenes(tmp_path / "set", train=30, val=0, test=30, settings=settings)
    left_out = {f"{colour} {thing}" for colour, thing in unseen_pairs(0, 0.5)}
    boxes = [json.loads(line) for line in (folder / "boxes.jsonl").read_text().splitlines()]
    theme = {thing: name for name, things in THEMES.items() for thing in things}

    def look(split: str) -> tuple[bool, float]:
        mine = [box for box in boxes if box["image"].startswith(f"images/{split}_0")]
        kin = [theme[a["thing"]] == theme[b["thing"]] for a, b in combinations(mine, 2) if a["image"] == b["image"]]
        return any(f"{box['colour']} {box['thing']}" in left_out for box in mine), float(np.mean(kin))

    assert look("train") == (False, 1.0)
    assert look("test") == (True, 1.0)
    assert look("test_broken")[0]
    assert look("test_broken")[1] < 0.4


def test_a_finished_folder_is_reused_and_an_interrupted_one_done_again(tmp_path: Path) -> None:
    folder = tmp_path / "set"

    def write() -> Path:
        return write_scenes(folder, train=3, val=1, test=1, settings=SMALL)

    def stop(done: int, _: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_scenes(folder, train=3, val=1, test=1, settings=SMALL, progress=stop)
    assert not (folder / "classes.txt").exists()
    write()
    whole = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    fresh = write_scenes(tmp_path / "fresh", train=3, val=1, test=1, settings=SMALL)
    assert whole == {path.name: path.read_bytes() for path in fresh.rglob("*") if path.is_file()}
    (folder / "train.csv").write_text("touched")
    write()
    assert (folder / "train.csv").read_text() == "touched"


def test_a_folder_of_something_else_is_never_written_into(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="not empty"):
        write_scenes(tmp_path, train=1, val=0, test=0, settings=SMALL)
    folder = write_scenes(tmp_path / "set", train=1, val=0, test=0, settings=SMALL)
    with pytest.raises(DataError, match="other settings"):
        write_scenes(folder, train=1, val=0, test=0, settings=SMALL, seed=1)
    for damage, message in (("[]", "other settings"), ("{", "cannot be read")):
        (folder / "scenes.json").write_text(damage)
        with pytest.raises(DataError, match=message):
            write_scenes(folder, train=1, val=0, test=0, settings=SMALL)
    with pytest.raises(RecipeError, match="negative"):
        write_scenes(tmp_path / "new", train=-1)
