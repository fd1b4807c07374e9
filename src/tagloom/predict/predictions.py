"""The tags of some pictures, as a list that shows itself in a notebook."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, TypeAlias

from PIL import ImageOps

from tagloom.data.reading import Source
from tagloom.errors import TagloomError
from tagloom.predict.explanation import Explanation, open_to_show, score_bar
from tagloom.predict.overlay import jpeg_address
from tagloom.wording import printable

if TYPE_CHECKING:
    from tagloom.predict.tagger import Tag

SHOWN_PICTURES = 6
_SHOWN_TAGS = 6
_SIDE = 220

Explain: TypeAlias = Callable[[Source, Sequence[str]], Explanation]


class Predictions(list[list["Tag"]]):
    """The tags of each picture, best first: an ordinary list of lists.

    In a notebook the first pictures show themselves with their tags, bars as long as the scores, and heat maps.

    Args:
        tags: The tags of each picture.
        sources: The first pictures.
        explain: Makes the heat maps of a picture's tags, when they are shown.
    """

    def __init__(self, tags: Iterable[list["Tag"]], sources: Sequence[Source], explain: Explain) -> None:
        super().__init__(tags)
        self._sources = list(sources[:SHOWN_PICTURES])
        self._explain = explain

    def __reduce__(self) -> tuple[type, tuple[list[list["Tag"]]]]:
        return list, (list(self),)  # copies and pickles hold tags, not the network

    def _repr_html_(self) -> str:
        parts = [self._shown(source, tags) for source, tags in zip(self._sources, self, strict=False)]
        left_out = len(self) - len(parts)
        return "".join(parts) + (f"<p>… {left_out:,} more pictures</p>" if left_out > 0 else "")

    def _shown(self, source: Source, tags: list["Tag"]) -> str:
        labels = [tag.label for tag in tags[:_SHOWN_TAGS]]
        try:
            if labels:
                return self._explain(source, labels)._repr_html_()
        except TagloomError as error:  # a tagger without heat maps still shows its tags
            note = f"<p>Without heat maps: {escape(printable(str(error)))}</p>"
        else:
            note = "<p>No label is above its threshold.</p>"
        bars = "".join(f"<div>{score_bar(tag.label, tag.score)}</div>" for tag in tags[:_SHOWN_TAGS])
        try:
            picture, _ = open_to_show(source)
        except TagloomError:
            return bars + note  # the file has gone since
        return f'<img src="{jpeg_address(ImageOps.contain(picture, (_SIDE, _SIDE)))}" alt="the picture">{bars}{note}'


def remember(pictures: Iterable[Source], first: list[Source]) -> Iterator[Source]:
    """Pass pictures on, and keep the first ones in `first`."""
    for picture in pictures:
        if len(first) < SHOWN_PICTURES:
            first.append(picture)
        yield picture
