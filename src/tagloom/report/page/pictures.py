"""The sections of a report that show images."""

from collections.abc import Callable, Sequence

from PIL import Image, ImageOps

from tagloom.data.images import open_image
from tagloom.errors import ImageError, TaggerError
from tagloom.evaluation.findings import Suspect
from tagloom.predict.overlay import jpeg_address
from tagloom.report.page.facts import Facts
from tagloom.report.page.sections import text
from tagloom.wording import printable

SIDE = 240
_QUALITY = 74
_MOST_TAGS = 8


def hard_images(facts: Facts, note: Callable[[str], None]) -> str:
    """The images whose labels are least likely by the scores, each with the heat of its worst label."""
    figures = []
    heat = True
    for image in facts.hard:
        label = facts.tagger.classes[image.worst]
        path = facts.table.image(image.row)
        if not (picture := _thumbnail(path)):
            continue
        pictures = [_img(picture, f"image {path.name}")]
        if heat:
            try:
                explanation = facts.tagger.explain(path, [label])
                pictures.append(_img(explanation.overlays(SIDE)[0], f"where {label} comes from"))
            except TaggerError as error:
                heat = False  # the others would fail as well
                note(f"without heat maps: {error}")
        true = facts.targets[image.row, image.worst]
        says = (
            f"{label} scores {facts.result.scores[image.row, image.worst]:.2f} and is {'true' if true else 'not true'}"
        )
        figures.append(
            f'<figure><div class="pair">{"".join(pictures)}</div><figcaption>{text(path.name)}: {text(says)}.<br>'
            f"{_tags(facts, image.row)}</figcaption></figure>"
        )
    if not figures:
        return "<p>None.</p>"
    return f'<div class="images hard">{"".join(figures)}</div>'


def suspects(facts: Facts, found: Sequence[Suspect], kind: str) -> str:
    """Images with a label that looks missing, or wrong."""
    figures = []
    for suspect in found:
        path = facts.table.image(suspect.row)
        if picture := _thumbnail(path):
            label = facts.tagger.classes[suspect.column]
            figures.append(
                f"<figure>{_img(picture, f'image {path.name}')}<figcaption>{text(kind)} <b>{text(label)}</b>? Its "
                f"score is {suspect.score:.3f}.<br>{text(path.name)}</figcaption></figure>"
            )
    return f'<div class="images">{"".join(figures)}</div>' if figures else "<p>None.</p>"


def _tags(facts: Facts, row: int) -> str:
    """The tags of an image, right and wrong, and the labels it missed."""
    true = {facts.tagger.classes[column] for column in facts.targets[[row]].indices}
    tags = facts.tagger.tags(facts.result.scores[row])
    said = []
    for tag in tags[:_MOST_TAGS]:
        verdict, mark = ("right", "✓") if tag.label in true else ("wrong", "✗")
        said.append(f'<span class="{verdict}">{mark} {text(tag.label)} {tag.score:.2f}</span>')
    missed = sorted(true - {tag.label for tag in tags})
    said += [f"– missed: {text(label)}" for label in missed[:_MOST_TAGS]]
    return ", ".join(said) or "no tag"


def _thumbnail(path: object) -> Image.Image | None:
    try:
        return ImageOps.contain(open_image(path, at_least=(SIDE, SIDE)), (SIDE, SIDE))  # type: ignore[arg-type]
    except ImageError:
        return None  # it could be read a moment ago


def _img(picture: Image.Image, alternative: str) -> str:
    size = f'width="{picture.width}" height="{picture.height}"'
    return f'<img src="{jpeg_address(picture, _QUALITY)}" alt="{text(printable(alternative))}" {size} decoding="async">'
