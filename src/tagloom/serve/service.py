"""What every dialect of the API asks: scores and heat maps of pictures, within the limits."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import ImageError, TagloomError
from tagloom.serve.bodies import Desk
from tagloom.serve.limits import Limits, Refusal
from tagloom.serve.metrics import Metrics
from tagloom.serve.taggers import Explained, ExplainQuestion, Picture, Question, ServedTagger

Answer = TypeVar("Answer")


@dataclass
class Service:
    """A server's taggers, with what they share.

    Attributes:
        taggers: The taggers by name; the first one answers where none is named.
        limits: What is accepted.
        desk: Takes in bodies.
        metrics: Counts.
        ready: Whether new requests are welcome; not while the server stops.
    """

    taggers: dict[str, ServedTagger]
    limits: Limits
    desk: Desk
    metrics: Metrics
    ready: bool = True

    def tagger(self, name: str | None) -> ServedTagger:
        """Give the tagger of this name, or the first."""
        if name is None:
            return next(iter(self.taggers.values()))
        if name not in self.taggers:
            raise Refusal(404, f"there is no tagger of this name. Known: {', '.join(self.taggers)}")
        return self.taggers[name]

    async def scores(
        self, served: ServedTagger, pictures: Sequence[Picture], labels: Sequence[str] | None = None
    ) -> list[NDArray[np.float32] | ImageError]:
        """Score pictures: an array (labels,) for each, or what is wrong with it.

        Args:
            served: The tagger.
            pictures: The pictures.
            labels: The labels to score; None for the tagger's own.

        Raises:
            Refusal: If there are too many, if the tagger cannot answer, or if it takes too long.
        """
        if len(pictures) > self.limits.pictures:
            raise Refusal(413, f"{len(pictures)} pictures in one request; this server takes {self.limits.pictures}.")
        chosen = self._checked(served, labels, self.limits.labels)
        found = await self._in_time(served.scores.submit([Question(picture, chosen) for picture in pictures]))
        results: list[NDArray[np.float32] | ImageError] = []
        for result in found:
            if isinstance(result, Exception) and not isinstance(result, ImageError):
                raise _as_refusal(result)
            results.append(result)
        return results

    async def explain(
        self, served: ServedTagger, picture: bytes, labels: Sequence[str] | None, method: str | None
    ) -> Explained:
        """Draw heat maps of a picture, of these labels or of the tags found."""
        if not served.methods:
            raise Refusal(422, served.no_maps)
        if method is not None and method not in served.methods:
            raise Refusal(422, f"the tagger {served.name!r} has no such method. Known: {', '.join(served.methods)}")
        if labels is not None and not served.takes_words:
            unknown = [label for label in labels if label not in served.tagger.classes]
            if unknown:
                raise Refusal(422, f"the tagger {served.name!r} does not know the label {unknown[0][:80]!r}.")
        chosen = self._checked(served, labels, self.limits.explained, own_labels=True)
        (result,) = await self._in_time(served.maps.submit([ExplainQuestion(picture, chosen, method)]))
        if isinstance(result, Exception):
            raise _as_refusal(result) if not isinstance(result, ImageError) else result
        return result

    def _checked(
        self, served: ServedTagger, labels: Sequence[str] | None, most: int, *, own_labels: bool = False
    ) -> tuple[str, ...] | None:
        if labels is None:
            return None
        names = tuple(dict.fromkeys(label.strip() for label in labels))
        if not served.takes_words and not own_labels:
            raise Refusal(422, f"the tagger {served.name!r} knows its {len(served.tagger.classes)} labels only.")
        if not all(0 < len(name) <= self.limits.label_characters for name in names):
            raise Refusal(422, f"a label must have 1 to {self.limits.label_characters} characters.")
        if not 0 < len(names) <= most:
            raise Refusal(422, f"{len(names)} labels in one request; this server takes 1 to {most}.")
        return names

    async def _in_time(self, work: Awaitable[Answer]) -> Answer:
        try:
            async with asyncio.timeout(self.limits.deadline_seconds):
                return await work
        except TimeoutError:
            seconds = self.limits.deadline_seconds
            raise Refusal(504, f"there was no answer within {seconds:g} s. Send fewer or smaller pictures.") from None

    async def close(self) -> None:
        """Finish what waits."""
        for served in self.taggers.values():
            await served.scores.close()
            await served.maps.close()


def _as_refusal(error: Exception) -> Exception:
    """Answer 422 to what the client can change: a label without a vector, a method that a head does not have."""
    return Refusal(422, str(error)) if isinstance(error, TagloomError) else error
