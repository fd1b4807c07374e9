"""Reading what a client sends: counted while it arrives, whatever its headers say, and within a time."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect, Request

from tagloom.serve.forms import Upload, form_files
from tagloom.serve.limits import Limits, Refusal, busy

JSON_BYTES = 16 * 2**20  # parsing JSON stops everything else, so it must not take long
FORM = "multipart/form-data"
DRAIN_SECONDS, DRAIN_BYTES = 2.0, 64 * 2**20


class Desk:
    """Takes in bodies, and knows how many bytes of them are here at this time.

    Args:
        limits: What it accepts.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.held = 0

    @asynccontextmanager
    async def body(self, request: Request, most: int | None = None) -> AsyncIterator[bytes]:
        """Read a body. Its bytes count as held until this context is left.

        Raises:
            Refusal: 413 if it is longer than `most` (the limit of a body), 408 if it takes too long, 429 if all bodies
                together are too long, 400 if the client leaves before its end.
        """
        most = self.limits.body_bytes if most is None else most
        parts: list[bytes] = []
        counted = 0
        try:
            try:
                _check_announced(request, most)
                async with asyncio.timeout(self.limits.body_seconds):
                    async for part in request.stream():
                        if counted + len(part) > most:
                            raise _too_long(most)
                        if self.held + len(part) > self.limits.all_bodies_bytes:
                            raise busy("too many large requests are being sent at once. Try again later.", 2)
                        counted += len(part)
                        self.held += len(part)
                        parts.append(part)
            except TimeoutError:
                seconds = self.limits.body_seconds
                raise Refusal(408, f"the request was not complete after {seconds:g} s.", _CLOSE) from None
            except ClientDisconnect:
                raise Refusal(400, "the client left before the end of its request.") from None
            except Refusal:
                parts.clear()
                await _drain(request)
                raise
            whole = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            yield whole
        finally:
            self.held -= counted

    @asynccontextmanager
    async def pictures(self, request: Request) -> AsyncIterator[list[Upload]]:
        """Read pictures: the files of a form, or the body itself, whatever it calls itself.

        curl names every body a form of another kind, and a picture is known by its first bytes anyway.

        Raises:
            Refusal: As `body`; 422 if there is no picture, 413 if there are too many.
        """
        kind, options = parse_options_header(request.headers.get("content-type"))
        is_form = kind == FORM.encode()
        async with self.body(request) as data:
            if is_form:
                uploads = form_files(data, options.get(b"boundary", b""), self.limits.pictures)
            else:
                uploads = [Upload(None, data)] if data else []
            if not uploads:
                raise Refusal(422, "there is no picture in the request. Send the bytes of one, or files in a form.")
            yield uploads

    @asynccontextmanager
    async def json(self, request: Request) -> AsyncIterator[dict[str, Any]]:
        """Read a JSON object, whatever kind of content it is sent as; no longer than `JSON_BYTES`."""
        async with self.body(request, min(JSON_BYTES, self.limits.body_bytes)) as data:
            yield await asyncio.to_thread(read_object, data)


_CLOSE = {"Connection": "close"}


def read_object(data: bytes) -> dict[str, Any]:
    """Read a JSON object of a stranger.

    Raises:
        Refusal: 400 if it is not one, is nested too deeply, or has numbers that are not finite.
    """
    try:
        content = json.loads(data, parse_constant=_not_a_number)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Refusal(400, f"the request is not JSON: {reason[:200]}") from None
    if not isinstance(content, dict):
        raise Refusal(400, "the request must be a JSON object.")
    return content


def _not_a_number(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _check_announced(request: Request, most: int) -> None:
    """Refuse a body by its Content-Length, before it is sent. A wrong or missing one is found out while reading."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most:
        raise _too_long(most)


def _too_long(most: int) -> Refusal:
    return Refusal(413, f"the request is larger than the {most:,} bytes that this server takes. Send less at once.")


async def _drain(request: Request) -> None:
    """Throw the rest of a refused body away for a moment: a client that is still sending would not read the answer."""
    end, seen = time.monotonic() + DRAIN_SECONDS, 0
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            while seen < DRAIN_BYTES and time.monotonic() < end:
                message = await request.receive()
                seen += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return
