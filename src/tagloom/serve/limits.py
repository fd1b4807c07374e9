"""What a server accepts, and how it refuses the rest."""

from dataclasses import dataclass

from tagloom.data.images import MAX_PIXELS
from tagloom.errors import ImageError, ImageFault

IMAGE_CODES: dict[ImageFault, int] = {"oversized": 413, "format": 415, "broken": 422, "missing": 422}
"""The answer to a picture that cannot be read, by what is wrong with it."""


@dataclass(frozen=True)
class Limits:
    """What a server accepts.

    Attributes:
        body_bytes: The most bytes of one request.
        all_bodies_bytes: The most bytes of all requests together that are being sent or wait for their answer.
        body_seconds: How long a client may take to send a request.
        pixels: The most pixels of a picture.
        pictures: The most pictures of one request.
        labels: The most labels of one request, where a tagger takes any.
        label_characters: The most characters of such a label.
        explained: The most heat maps of one request.
        waiting: The most pictures that wait for a tagger.
        deadline_seconds: How long a request may wait for its answer once it is sent.
        window_seconds: How long a tagger waits for more pictures before it computes those that it has.
        batch: The most pictures that a tagger computes at once.
    """

    body_bytes: int = 32 * 2**20
    all_bodies_bytes: int = 512 * 2**20
    body_seconds: float = 30.0
    pixels: int = MAX_PIXELS
    pictures: int = 64
    labels: int = 256
    label_characters: int = 200
    explained: int = 16
    waiting: int = 256
    deadline_seconds: float = 30.0
    window_seconds: float = 0.005
    batch: int = 32


class Refusal(Exception):  # noqa: N818  most are the client's doing, and none is a fault of ours
    """An answer that says why there is no other.

    Attributes:
        code: The HTTP status.
        message: What was found, and what to do.
        headers: Further headers of the answer.
    """

    def __init__(self, code: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.headers = headers or {}


def refuse_image(error: ImageError, name: str | None = None) -> Refusal:
    """Turn a picture that cannot be read into an answer; `name` is what the client calls it."""
    return Refusal(IMAGE_CODES[error.reason], f"{name or 'the picture'}: {error.finding}")


def busy(message: str, seconds: float) -> Refusal:
    """Ask the client to come back in so many seconds."""
    return Refusal(429, message, {"Retry-After": str(max(1, round(seconds)))})
