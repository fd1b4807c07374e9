"""Contact sheets, judged by the pixels they show."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageColor

from tagloom.errors import DataError
from tagloom.report import contact_sheet as module
from tagloom.report.contact_sheet import contact_sheet

RED_SQUARE = Image.new("RGB", (60, 60), "red")


def pixels_of(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB"))


def holds(pixels: np.ndarray, colour: str) -> bool:
    return bool((pixels == ImageColor.getrgb(colour)).all(axis=-1).any())


def test_the_grid_has_the_columns_and_rows_asked_for(tmp_path: Path) -> None:
    pictures = [(RED_SQUARE, [("cat", 0.9)], None)] * 5
    pixels = pixels_of(contact_sheet(pictures, tmp_path / "new" / "sheet.png", columns=2, cell=64))
    assert pixels.shape[1] == 2 * 64 + 3 * 12
    red = (pixels == (255, 0, 0)).all(axis=2)
    assert red.sum() == 5 * 64 * 64
    assert [run.sum() for run in np.split(red.any(axis=1), np.flatnonzero(np.diff(red.any(axis=1))) + 1)][1::2] == [
        64
    ] * 3


def test_verdicts_have_a_colour_and_a_mark_each(tmp_path: Path) -> None:
    def below(tags: list[tuple[str, float]], truth: list[str] | None) -> np.ndarray:
        path = contact_sheet([(RED_SQUARE, tags, truth)], tmp_path / "sheet.png", cell=100)
        return pixels_of(path)[12 + 100 :]

    right, wrong = below([("cat", 0.9)], ["cat"]), below([("cat", 0.9)], [])
    missed, unjudged = below([], ["cat"]), below([("cat", 0.9)], None)
    seen = {"right": right, "wrong": wrong, "missed": missed, "unjudged": unjudged}
    for verdict, colour in module._INK.items():
        assert {name for name, pixels in seen.items() if holds(pixels, colour)} == {verdict}
    # Without colour they still differ, where the mark is drawn.
    shapes = [(pixels[:25, 12:26].min(axis=2) < 200) for pixels in (right, wrong, missed)]
    assert all(shape.any() for shape in shapes)
    assert not np.array_equal(shapes[0], shapes[1])
    assert not np.array_equal(shapes[1], shapes[2])
    assert not np.array_equal(shapes[0], shapes[2])


def test_tags_keep_their_order_and_missed_labels_follow() -> None:
    lines = module._lines([("dog", 0.8), ("cat", 0.555)], ["cat", "fish"])
    assert [(line.verdict, line.text, line.value) for line in lines] == [
        ("wrong", "dog", "0.80"),
        ("right", "cat", "0.56"),
        ("missed", "fish", "missed"),
    ]


def test_too_many_tags_are_counted_in_the_last_line() -> None:
    lines = module._lines([(f"tag {i}", 0.5) for i in range(40)], None)
    assert len(lines) == module.MAX_LINES
    assert lines[-1].text == "and 29 more"


def test_pictures_keep_their_proportions(tmp_path: Path) -> None:
    pixels = pixels_of(contact_sheet([(Image.new("RGB", (200, 50), "red"), [], None)], tmp_path / "s.png", cell=80))
    red = (pixels == (255, 0, 0)).all(axis=2)
    assert (red.any(axis=1).sum(), red.any(axis=0).sum()) == (20, 80)


def test_an_image_that_cannot_be_opened_leaves_a_frame_and_stops_nothing(tmp_path: Path) -> None:
    good = tmp_path / "good.png"
    RED_SQUARE.save(good)
    pictures = [(tmp_path / "none.jpg", [("cat", 0.5)], None), (str(good), [("cat", 0.5)], None)]
    pixels = pixels_of(contact_sheet(pictures, tmp_path / "sheet.png", cell=64))
    assert (pixels == (255, 0, 0)).all(axis=2).sum() == 64 * 64
    assert holds(pixels[:76, :76], module._INK["wrong"])


def test_long_and_foreign_labels_stay_within_their_cell(tmp_path: Path) -> None:
    tags = [("w" * 5000, 0.5), ("naïve café", 0.5), ("犬\n\x00", 0.5), ("", 0.5)]
    pixels = pixels_of(contact_sheet([(RED_SQUARE, tags, None)], tmp_path / "sheet.png", cell=120))
    assert (pixels[:, :12] == 255).all()
    assert (pixels[:, 132:] == 255).all()


def test_impossible_sheets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="at least one"):
        contact_sheet([], tmp_path / "s.png")
    with pytest.raises(DataError, match="columns"):
        contact_sheet([(RED_SQUARE, [], None)], tmp_path / "s.png", columns=0)
    with pytest.raises(DataError, match="Show fewer"):
        contact_sheet([(RED_SQUARE, [], None)] * 5000, tmp_path / "s.png")
