"""What `Tagger.explain` gives: for some labels, where in a picture they come from."""

from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from tagloom.data.images import open_image
from tagloom.data.reading import Source, to_image
from tagloom.predict.overlay import jpeg_address, overlay
from tagloom.wording import printable

SHOWN_SIDE = 1024
"""The longer side of the picture that an explanation keeps."""
_THUMBNAIL = 220
_MOST_SHOWN = 12


@dataclass(frozen=True, eq=False)
class Explanation:
    """Where labels come from.

    Attributes:
        labels: The K labels.
        scores: (K,), from 0 to 1.
        method: How the maps were made.
        grid: (K, h, w), as coarse as the network sees. The hottest place of each label is 1; a label with nothing that
            speaks for it is 0 everywhere.
        size: Width and height of the upright picture.
        box: The part of it that the network saw: left, top, right, bottom.
        picture: The upright picture, at most `SHOWN_SIDE` long.
    """

    labels: tuple[str, ...]
    scores: NDArray[np.float32]
    method: str
    grid: NDArray[np.float32]
    size: tuple[int, int]
    box: tuple[float, float, float, float]
    picture: Image.Image = field(repr=False)

    @property
    def maps(self) -> NDArray[np.float32]:
        """The maps in the geometry of the upright picture: (K, H, W), 0 where the network saw nothing."""
        return self.maps_at(*self.size)

    def maps_at(self, width: int, height: int) -> NDArray[np.float32]:
        """Give the maps for a copy of the picture of another size: (K, height, width)."""
        maps = [_stretch(grid, self.size, self.box, (width, height)) for grid in self.grid]
        return np.stack(maps) if maps else np.zeros((0, height, width), np.float32)

    def overlays(self, side: int = SHOWN_SIDE) -> list[Image.Image]:
        """Lay each label's map over the picture, made larger or smaller so that its longer side is `side`."""
        small = ImageOps.contain(self.picture, (side, side))
        return [overlay(small, _stretch(grid, self.size, self.box, small.size)) for grid in self.grid]

    def __repr__(self) -> str:
        found = ", ".join(f"{label!r} {score:.2f}" for label, score in zip(self.labels, self.scores, strict=True))
        rows, columns = self.grid.shape[1:]
        return f"Explanation({self.method}, {rows} x {columns}: {found or 'no label'})"

    def _repr_html_(self) -> str:
        small = ImageOps.contain(self.picture, (_THUMBNAIL, _THUMBNAIL))
        cells = [_figure(small, "")]
        for label, score, picture in zip(
            self.labels[:_MOST_SHOWN], self.scores, self.overlays(_THUMBNAIL), strict=False
        ):
            cells.append(_figure(picture, score_bar(label, float(score)), f"where {label} comes from"))
        left_out = len(self.labels) - _MOST_SHOWN
        note = f"<p>… {left_out} more</p>" if left_out > 0 else ""
        if not self.labels:
            note = "<p>No label is above its threshold.</p>"
        return f'<div style="display:flex;flex-wrap:wrap;gap:10px">{"".join(cells)}</div>{note}'


def open_to_show(source: Source) -> tuple[Image.Image, tuple[int, int]]:
    """Open a picture: gives a copy of at most `SHOWN_SIDE`, and the width and height of the upright original."""
    image = open_image(to_image(source))
    size = image.size
    image.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
    return image, size


def score_bar(label: str, score: float) -> str:
    """Draw a label, a bar as long as its score, and the score, as HTML."""
    name = escape(printable(label))
    bar = (
        '<span style="display:inline-block;width:80px;height:8px;background:#8884">'
        f'<span style="display:block;width:{80 * min(max(score, 0.0), 1.0):.0f}px;height:8px;background:#d9480f">'
        "</span></span>"
    )
    return f"{name} {bar} {score:.2f}"


def normalised(maps: NDArray[np.float32]) -> NDArray[np.float32]:
    """Turn raw maps (K, h, w) into heat from 0 to 1: what each place adds beyond the average place, hottest 1.

    A raw map is known up to a constant: the bias of a linear layer, or what a token holds without the image, belongs to
    no place. The average place is the level that needs no such choice.
    """
    raised = np.maximum(maps - maps.mean(axis=(1, 2), keepdims=True), 0)
    highest = raised.max(axis=(1, 2), keepdims=True)
    level = 1e-6 * np.maximum(np.abs(maps).max(axis=(1, 2), keepdims=True), 1e-30)  # rounding is no evidence
    return np.where(highest > level, raised / np.where(highest > 0, highest, 1), 0).astype(np.float32)


def _stretch(
    grid: NDArray[np.float32],
    size: tuple[int, int],
    box: tuple[float, float, float, float],
    wanted: tuple[int, int],
) -> NDArray[np.float32]:
    """Spread a grid (h, w) over the box of a picture, in a copy of the picture of the wanted width and height."""
    left, right = (round(edge * wanted[0] / size[0]) for edge in (box[0], box[2]))
    top, bottom = (round(edge * wanted[1] / size[1]) for edge in (box[1], box[3]))
    inside = (max(1, right - left), max(1, bottom - top))
    smooth = Image.fromarray(grid.astype(np.float32)).resize(inside, Image.Resampling.BILINEAR)
    heat = np.zeros((wanted[1], wanted[0]), np.float32)
    part = heat[top : top + inside[1], left : left + inside[0]]
    part[:] = np.asarray(smooth)[: part.shape[0], : part.shape[1]]
    return heat


def _figure(picture: Image.Image, caption: str, alternative: str = "the picture") -> str:
    source = jpeg_address(picture)
    text = escape(printable(alternative), quote=True)
    return f'<figure style="margin:0"><img src="{source}" alt="{text}"><figcaption>{caption}</figcaption></figure>'
