"""What the page of a review asks. Photos are named by their row, so that no request names a path."""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from tagloom.errors import ImageError, TagloomError
from tagloom.review.export import write_corrections, write_keywords, write_labels
from tagloom.serve.limits import Refusal, refuse_image

if TYPE_CHECKING:
    from tagloom.serve.reviewing import ReviewService

MOST_PHOTOS = 60
SIDES = (480, 1600)
"""The longer side of a photo as it is shown, in pixels: in the grid, and alone."""


def routes(service: "ReviewService") -> APIRouter:
    """Give the routes."""
    router = APIRouter(prefix="/v1/review", tags=["review"])
    session = service.session

    @router.get("", summary="How far the review is")
    async def state() -> JSONResponse:
        return JSONResponse(service.state())

    @router.get("/next", summary="The photos to answer about next, the most useful first")
    async def upcoming(count: Annotated[int, Query(ge=1, le=MOST_PHOTOS)] = 24) -> JSONResponse:
        def cards() -> list[dict[str, Any]]:
            return [service.card(row) for row in session.waiting(count)]

        return JSONResponse({"photos": await asyncio.to_thread(cards)})

    @router.get("/photos/{row}", summary="A photo, as a JPEG that fits a page", response_class=Response)
    async def photo(row: int, side: int = SIDES[-1]) -> Response:
        if side not in SIDES:
            raise Refusal(422, f"'side' must be one of {', '.join(map(str, SIDES))}.")
        try:
            data = await asyncio.to_thread(service.shown, _checked(row), side)
        except ImageError as error:
            raise refuse_image(error, "the photo") from None
        return Response(data, media_type="image/jpeg")

    @router.post("/answers", summary="Say which labels apply to a photo; all others do not")
    async def answer(request: Request) -> JSONResponse:
        async with service.desk.json(request) as asked:
            row = _checked(asked.get("row"))
            yes, unsure = _names(asked, "yes"), _names(asked, "unsure")
            await _done(session.answer, row, yes, unsure)
        return JSONResponse(service.state())

    @router.post("/skip", summary="Ask about a photo later")
    async def skip(request: Request) -> JSONResponse:
        async with service.desk.json(request) as asked:
            session.skip(_checked(asked.get("row")))
        return JSONResponse(service.state())

    @router.post("/undo", summary="Take back the last answer")
    async def undo() -> JSONResponse:
        row = await _done(session.undo)
        return JSONResponse(service.state() | {"row": row})

    @router.post("/labels", summary="Add a label")
    async def add_label(request: Request) -> JSONResponse:
        async with service.desk.json(request) as asked:
            label = await _done(session.add_label, str(asked.get("label", "")))
        return JSONResponse(service.state() | {"label": label})

    @router.post("/retrain", summary="Learn from the answers, in the background")
    async def retrain() -> JSONResponse:
        service.retrain()
        return JSONResponse(service.state())

    @router.post("/export", summary="Write labels, corrections or keywords")
    async def export(request: Request) -> JSONResponse:
        async with service.desk.json(request) as asked:
            writers = {"labels": _write_labels, "corrections": _write_corrections, "keywords": _write_keywords}
            write = writers.get(str(asked.get("what")))
            if write is None:
                raise Refusal(422, f"'what' must be one of {', '.join(writers)}.")
            return JSONResponse({"message": await _done(write)})

    def _write_labels() -> str:
        return f"Labels written to {write_labels(session)}"

    def _write_corrections() -> str:
        return f"Corrections written to {write_corrections(session)}"

    def _write_keywords() -> str:
        results = list(write_keywords(session))
        found = Counter(result.outcome for result in results)
        problem = next((result.error for result in results if result.error), "")
        text = f"Keywords written into the sidecars of {found['written']:,} photos, {found['unchanged']:,} unchanged"
        return text + (f", {found['failed']:,} left as they are: {problem}" if problem else "")

    def _checked(row: object) -> int:
        if not isinstance(row, int) or isinstance(row, bool) or not 0 <= row < len(session.table):
            raise Refusal(404, "there is no such photo in this review.")
        return row

    return router


def _names(asked: dict[str, Any], key: str) -> list[str]:
    names = asked.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Refusal(422, f"{key!r} must be a list of labels.")
    return list(dict.fromkeys(names))


async def _done(work: Any, *arguments: Any) -> Any:
    """Do something that waits for a disk in a thread; what the person can change becomes an answer."""
    try:
        return await asyncio.to_thread(work, *arguments)
    except (TagloomError, OSError) as error:
        raise Refusal(422, str(error)) from None
