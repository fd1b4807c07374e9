"""The taggers of a server: named when it starts, each with its queues."""

import asyncio
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tagloom.data.images import claimed_pixels
from tagloom.errors import ImageError, TagloomError
from tagloom.predict.heat_maps import default_method
from tagloom.predict.tagger import Tagger
from tagloom.serve.batching import Batcher
from tagloom.serve.limits import Limits
from tagloom.serve.metrics import Metrics

Picture = bytes | NDArray[np.uint8]
"""An encoded image, or pixels (H, W, 3)."""

MAP_SIDE = 320
"""The longer side of a heat map that is sent, in pixels. The network's own grid is coarser."""
METHODS_WITHOUT_GRADIENTS = ("eigen-cam",)
"""What a server offers besides a head's own method. Gradients take many times the memory of a prediction."""
THREADS = 2
"""Batches at a time, so that one is decoded while another one is computed."""


class Question(NamedTuple):
    """A picture, and the labels to score: None for the tagger's own."""

    picture: Picture
    labels: tuple[str, ...] | None


class Heat(NamedTuple):
    """Where a label comes from: its score, and a map as PNG, black to white, in the shape of the upright picture."""

    label: str
    score: float
    grid: NDArray[np.float32]
    png: bytes


class Explained(NamedTuple):
    """The heat maps of a picture, and the method that made them."""

    method: str
    heats: list[Heat]


class ExplainQuestion(NamedTuple):
    """A picture, the labels to explain (None for the tags found), and the method (None for the head's default)."""

    picture: bytes
    labels: tuple[str, ...] | None
    method: str | None


@dataclass(frozen=True)
class ServedTagger:
    """A tagger under the name that requests use.

    Attributes:
        name: Its name.
        tagger: The tagger.
        scores: Its queue of pictures to score.
        maps: Its queue of pictures to explain, one at a time.
        methods: The ways in which it makes heat maps, its usual one first.
        no_maps: Why it makes none, if so.
    """

    name: str
    tagger: Tagger
    scores: Batcher[Question, NDArray[np.float32]]
    maps: Batcher[ExplainQuestion, Explained]
    methods: tuple[str, ...]
    no_maps: str

    @property
    def takes_words(self) -> bool:
        """Whether it scores labels that it was not trained on."""
        return self.tagger.spec.words is not None

    async def of_labels(self, labels: Sequence[str] | None) -> Tagger:
        """Give the tagger of these labels, or of its own classes. Encoding labels takes time, so a thread does it."""
        return self.tagger if labels is None else await asyncio.to_thread(self.tagger.with_labels, labels)


def serve_taggers(taggers: dict[str, Tagger], limits: Limits, metrics: Metrics) -> dict[str, ServedTagger]:
    """Give each tagger its queues."""

    def served(name: str, tagger: Tagger) -> ServedTagger:
        scores = Batcher[Question, NDArray[np.float32]](
            lambda questions: score(tagger, questions, limits.pixels),
            most=limits.batch,
            window=limits.window_seconds,
            waiting=limits.waiting,
            threads=THREADS,
            on_batch=lambda size: metrics.batch_size.labels(model=name, kind="predict").observe(size),
        )
        maps = Batcher[ExplainQuestion, Explained](
            lambda questions: [explain(tagger, question, limits) for question in questions],
            most=1,
            window=0.0,
            waiting=max(1, limits.waiting // 8),
            on_batch=lambda size: metrics.batch_size.labels(model=name, kind="explain").observe(size),
        )
        return ServedTagger(name, tagger, scores, maps, *try_methods(tagger))

    return {name: served(name, tagger) for name, tagger in taggers.items()}


def try_methods(tagger: Tagger) -> tuple[tuple[str, ...], str]:
    """Find out how a tagger makes heat maps, by making some. What it needs is loaded here, and not by a request.

    Returns:
        The methods that work, the tagger's usual one first; and why there is none, if so.
    """
    grey = np.full((32, 32, 3), 128, np.uint8)
    working: list[str] = []
    first_fault = ""
    for method in (default_method(tagger.spec), *METHODS_WITHOUT_GRADIENTS):
        try:
            if method not in working:
                tagger.explain(grey, [tagger.classes[0]], method)
                working.append(method)
        except TagloomError as error:
            first_fault = first_fault or str(error)
    return tuple(working), "" if working else first_fault


def name_taggers(folders: Iterable[str]) -> list[str]:
    """Name taggers by the last parts of their folders, each differently.

    >>> name_taggers(["runs/first", "old/first/", "hf-hub:owner/birds@v1"])
    ['first', 'first-2', 'birds']
    """
    names: list[str] = []
    for folder in folders:
        stem = Path(folder.rstrip("/").partition("@")[0]).name or "tagger"
        stem = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in stem)
        numbered = (stem if number == 1 else f"{stem}-{number}" for number in range(1, len(names) + 2))
        names.append(next(name for name in numbered if name not in names))
    return names


def score(tagger: Tagger, questions: list[Question], most_pixels: int) -> list[NDArray[np.float32] | Exception]:
    """Score pictures together, by the labels that are asked: an array (labels,) or an error for each."""
    answers: list[NDArray[np.float32] | Exception] = [RuntimeError("not computed")] * len(questions)
    asked: dict[tuple[str, ...] | None, list[int]] = {}
    for index, question in enumerate(questions):
        try:
            _check_pixels(question.picture, most_pixels)
            asked.setdefault(question.labels, []).append(index)
        except ImageError as error:
            answers[index] = error
    for labels, indices in asked.items():
        try:
            chosen = tagger if labels is None else tagger.with_labels(labels)
            for position, result in chosen.stream([questions[index].picture for index in indices]):
                answers[indices[position]] = result
        except TagloomError as error:
            for index in indices:
                answers[index] = error
    return answers


def explain(tagger: Tagger, question: ExplainQuestion, limits: Limits) -> Explained | Exception:
    """Draw heat maps of a picture, small enough to be sent."""
    try:
        _check_pixels(question.picture, limits.pixels)
        found = tagger.explain(question.picture, question.labels, question.method)
    except TagloomError as error:
        return error
    scale = min(1.0, MAP_SIDE / max(found.size))
    width, height = (max(1, round(side * scale)) for side in found.size)
    if not found.labels:
        return Explained(found.method, [])
    heats = [
        Heat(label, float(value), grid, _png(heat))
        for label, value, grid, heat in zip(
            found.labels, found.scores, found.grid, found.maps_at(width, height), strict=True
        )
    ]
    return Explained(found.method, heats[: limits.explained])


def _check_pixels(picture: Picture, most: int) -> None:
    if isinstance(picture, bytes):
        found = claimed_pixels(picture)
        if found > most:
            finding = f"has {found:,} pixels, more than the {most:,} that this server takes. Make it smaller."
            raise ImageError("picture", "oversized", finding)


def _png(heat: NDArray[np.float32]) -> bytes:
    """Turn a map (H, W) from 0 to 1 into a PNG."""
    file = io.BytesIO()
    Image.fromarray(np.rint(np.clip(heat, 0, 1) * 255).astype(np.uint8)).save(file, "PNG", compress_level=3)
    return file.getvalue()
