"""A sheet of heat maps: rows and columns of pictures with a line of text over each."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont, ImageOps

from tagloom.data.images import MAX_PIXELS
from tagloom.errors import DataError
from tagloom.files import whole_file
from tagloom.predict.explanation import Explanation
from tagloom.report.contact_sheet import shortened

CELL = 320
_GAP, _LINE, _FONT_SIZE = 12, 22, 15
_PAGE, _INK = "#ffffff", "#202124"


class Tile(NamedTuple):
    """A picture and the line above it."""

    title: str
    picture: Image.Image


def label_tiles(explanation: Explanation, title: str = "{label}  {score:.2f}", side: int = CELL) -> list[Tile]:
    """Give one tile per label of an explanation; the title may name its {label} and {score}."""
    pairs = zip(explanation.labels, explanation.scores, strict=True)
    titles = [title.format(label=label, score=float(score)) for label, score in pairs]
    return [Tile(*pair) for pair in zip(titles, explanation.overlays(side), strict=True)]


def picture_tile(explanation: Explanation, title: str, side: int = CELL) -> Tile:
    """Give the tile of the picture itself."""
    return Tile(title, ImageOps.contain(explanation.picture, (side, side)))


def grid_of(tiles: Sequence[Tile]) -> list[list[Tile]]:
    """Arrange tiles in rows of up to four, as evenly as they go."""
    columns = min(4, len(tiles)) if len(tiles) <= 4 or len(tiles) > 6 else 3
    return [list(tiles[first : first + columns]) for first in range(0, len(tiles), columns)]


def check_sheet_name(target: Path) -> None:
    """Refuse a file name that does not say which kind of picture is wanted, before anything is computed."""
    if target.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise DataError(f"{target}: heat maps are drawn as a .png or .jpg file; end the name in one of these.")


def draw_tiles(rows: Sequence[Sequence[Tile]], path: str | os.PathLike[str], side: int = CELL) -> Path:
    """Write rows of tiles as a PNG or JPEG file, by its suffix.

    Args:
        rows: The tiles.
        path: The file to write; missing folders are made.
        side: Width of a column; the pictures are no longer than this.
    """
    target = Path(path)
    check_sheet_name(target)
    columns = max(len(row) for row in rows)
    heights = [_LINE + max(tile.picture.height for tile in row) + _GAP for row in rows]
    size = columns * (side + _GAP) + _GAP, sum(heights) + _GAP
    if size[0] * size[1] > MAX_PIXELS:
        raise DataError(f"{sum(map(len, rows))} heat maps would make a picture of {size[0]} x {size[1]}. Draw fewer.")
    sheet = Image.new("RGB", size, _PAGE)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(_FONT_SIZE)
    top = _GAP
    for row, height in zip(rows, heights, strict=True):
        for number, tile in enumerate(row):
            left = _GAP + number * (side + _GAP)
            draw.text((left, top), shortened(draw, font, tile.title, side), _INK, font)
            sheet.paste(tile.picture, (left, top + _LINE))
        top += height
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as partial:
        sheet.save(partial, "PNG" if target.suffix.lower() == ".png" else "JPEG", quality=88)
    return target
