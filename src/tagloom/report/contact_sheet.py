"""A page of images with their tags underneath, to see at a glance what a tagger gets right and wrong."""

import math
import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from PIL import Image, ImageDraw, ImageFont

from tagloom.data.images import MAX_PIXELS, open_image
from tagloom.data.packed.images import PackedImage
from tagloom.errors import DataError, ImageError
from tagloom.files import whole_file
from tagloom.wording import and_more

TaggedPicture: TypeAlias = tuple[
    Image.Image | str | os.PathLike[str] | PackedImage,
    Sequence[tuple[str, float]],
    Sequence[str] | Mapping[str, float] | None,
]
"""An image, its tags with their scores, and its true labels if they are known, perhaps with their scores."""

_Font: TypeAlias = ImageFont.FreeTypeFont | ImageFont.ImageFont
Verdict: TypeAlias = Literal["right", "wrong", "missed", "unjudged"]

MAX_LINES = 12
"""Lines under a picture; the last one counts what does not fit."""

_GAP = 12
_LINE_HEIGHT = 19
_FONT_SIZE = 14
_MARK_SIZE = 11
_TITLE_SIZE = 20
_PAGE, _FRAME, _RULE = "#ffffff", "#f0f0f0", "#c0c0c0"
_INK: dict[Verdict, str] = {"right": "#15692f", "wrong": "#b3261e", "missed": "#6b6f76", "unjudged": "#202124"}
# A tick, a cross and a dash in a unit square: the verdict shows without colour, and no font needs these signs.
_MARKS: dict[Verdict, tuple[tuple[tuple[float, float], ...], ...]] = {
    "right": (((0.0, 0.55), (0.35, 0.95), (1.0, 0.1)),),
    "wrong": (((0.05, 0.1), (0.95, 0.95)), ((0.05, 0.95), (0.95, 0.1))),
    "missed": (((0.0, 0.55), (1.0, 0.55)),),
    "unjudged": (),
}


@dataclass(frozen=True)
class _Line:
    verdict: Verdict
    text: str
    value: str = ""


def contact_sheet(
    pictures: Sequence[TaggedPicture], path: str | os.PathLike[str], *, columns: int = 4, cell: int = 224
) -> Path:
    """Write a PNG grid of pictures, each with its tags and scores underneath.

    Where the true labels are given, right tags are green with a tick, wrong ones are red with a cross, and missed
    labels are grey with a dash, and with their scores where these are given. An image that cannot be opened leaves a
    frame that says why.

    Args:
        pictures: Image or path, tags with scores, and the true labels or None.
        path: The PNG to write; missing folders are made.
        columns: Pictures in a row.
        cell: Side of the square for each picture, in pixels.

    Returns:
        The path written.
    """
    return _save(_sheet(pictures, columns, cell), path)


def side_by_side(
    parts: Sequence[tuple[str, Sequence[TaggedPicture]]],
    path: str | os.PathLike[str],
    *,
    columns: int = 3,
    cell: int = 224,
) -> Path:
    """Write a PNG with several grids of pictures next to each other, each under its title.

    Args:
        parts: The title and the pictures of each grid; a grid without pictures is left out.
        path: The PNG to write; missing folders are made.
        columns: Pictures in a row of each grid.
        cell: Side of the square for each picture, in pixels.
    """
    sheets = [(title, _sheet(pictures, columns, cell)) for title, pictures in parts if pictures]
    if not sheets:
        raise DataError("a contact sheet needs at least one picture, found none.")
    gap, top = 3 * _GAP, _TITLE_SIZE + 2 * _GAP
    width = sum(sheet.width for _, sheet in sheets) + gap * (len(sheets) - 1)
    page = Image.new("RGB", (width, top + max(sheet.height for _, sheet in sheets)), _PAGE)
    draw, font, left = ImageDraw.Draw(page), ImageFont.load_default(_TITLE_SIZE), 0
    for number, (title, sheet) in enumerate(sheets):
        if number:
            draw.line([(left - gap // 2, _GAP), (left - gap // 2, page.height - _GAP)], _RULE, 2)
        draw.text((left + _GAP, _GAP), shortened(draw, font, title, sheet.width - 2 * _GAP), _INK["unjudged"], font)
        page.paste(sheet, (left, top))
        left += sheet.width + gap
    return _save(page, path)


def _sheet(pictures: Sequence[TaggedPicture], columns: int, cell: int) -> Image.Image:
    """Draw a grid of pictures."""
    if not pictures:
        raise DataError("a contact sheet needs at least one picture, found none.")
    if columns < 1 or cell < 32:
        raise DataError(f"a contact sheet needs columns >= 1 and cell >= 32, found {columns} and {cell}.")
    columns = min(columns, len(pictures))
    rows = [pictures[start : start + columns] for start in range(0, len(pictures), columns)]
    lines = [[_lines(tags, truth) for _, tags, truth in row] for row in rows]
    heights = [cell + _GAP // 2 + _LINE_HEIGHT * max(map(len, row)) + _GAP for row in lines]
    size = columns * (cell + _GAP) + _GAP, sum(heights) + _GAP
    if size[0] * size[1] > MAX_PIXELS:
        raise DataError(f"a contact sheet of {len(pictures)} pictures would be {size[0]} x {size[1]}. Show fewer.")
    sheet = Image.new("RGB", size, _PAGE)
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(_FONT_SIZE)
    top = _GAP
    for row, row_lines, height in zip(rows, lines, heights, strict=True):
        for column, ((source, _, _), under) in enumerate(zip(row, row_lines, strict=True)):
            left = _GAP + column * (cell + _GAP)
            _draw_picture(sheet, draw, source, left, top, cell)
            for number, line in enumerate(under):
                _draw_line(draw, font, line, left, top + cell + _GAP // 2 + number * _LINE_HEIGHT, cell)
        top += height
    return sheet


def _save(sheet: Image.Image, path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as partial:
        sheet.save(partial, "PNG")
    return target


def _lines(tags: Sequence[tuple[str, float]], truth: Sequence[str] | Mapping[str, float] | None) -> list[_Line]:
    """Judge the tags of one image: first its tags, in the order given, then the missed labels."""
    if truth is None:
        lines = [_Line("unjudged", name, f"{score:.2f}") for name, score in tags]
    else:
        said = {name for name, _ in tags}
        lines = [_Line("right" if name in truth else "wrong", name, f"{score:.2f}") for name, score in tags]
        scores = truth if isinstance(truth, Mapping) else {}
        missed = [name for name in truth if name not in said]
        lines += [_Line("missed", name, f"missed {scores[name]:.2f}" if scores else "missed") for name in missed]
    if len(lines) > MAX_LINES:
        shown = MAX_LINES - 1
        lines = [*lines[:shown], _Line("unjudged", and_more(lines, shown).strip())]
    return lines


def _draw_picture(
    sheet: Image.Image,
    draw: ImageDraw.ImageDraw,
    source: Image.Image | str | os.PathLike[str] | PackedImage,
    x: int,
    y: int,
    cell: int,
) -> None:
    draw.rectangle((x, y, x + cell - 1, y + cell - 1), _FRAME)
    try:
        image = open_image(source, at_least=(cell, cell))
    except ImageError as error:
        draw.text((x + 8, y + 8), f"{error.reason} image", _INK["wrong"], ImageFont.load_default(_FONT_SIZE))
        return
    scale = cell / max(image.size)
    fitted = image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))), reducing_gap=3.0)
    sheet.paste(fitted, (x + (cell - fitted.width) // 2, y + (cell - fitted.height) // 2))


def _draw_line(draw: ImageDraw.ImageDraw, font: _Font, line: _Line, x: int, y: int, width: int) -> None:
    ink = _INK[line.verdict]
    for stroke in _MARKS[line.verdict]:
        draw.line([(x + u * _MARK_SIZE, y + 3 + v * _MARK_SIZE) for u, v in stroke], ink, 2, joint="curve")
    indent = _MARK_SIZE + 6 if line.verdict != "unjudged" else 0
    value_width = math.ceil(draw.textlength(line.value, font)) + 1  # smoothed edges take one more pixel
    draw.text((x + width - value_width, y), line.value, ink, font)
    draw.text((x + indent, y), shortened(draw, font, line.text, width - indent - value_width - 8), ink, font)


def shortened(draw: ImageDraw.ImageDraw, font: _Font, text: str, width: float) -> str:
    """Shorten a label to a width. Pillow's own font has little beyond ASCII, so accents are dropped."""
    plain = unicodedata.normalize("NFKD", text[:200])
    plain = "".join(c if c.isascii() and c.isprintable() else "?" for c in plain if not unicodedata.combining(c))
    if draw.textlength(plain, font) <= width:
        return plain
    while plain and draw.textlength(plain + "...", font) > width:
        plain = plain[:-1]
    return plain + "..."
