"""Putting an application together: routes, what guards them, and what counts them."""

import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tagloom import __version__
from tagloom.serve import health, pages
from tagloom.serve.guard import Access, Guard
from tagloom.serve.limits import Refusal
from tagloom.serve.metrics import Metrics
from tagloom.serve.served import Served

_log = logging.getLogger("tagloom.serve")


def assemble(service: Served, routers: Sequence[APIRouter], content: dict[str, bytes], access: Access) -> FastAPI:
    """Make an application.

    Args:
        service: What it serves.
        routers: The routes of its API.
        content: The files of its page, by the path under which they are served; they need no token.
        access: Who may ask.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await service.close()

    app = FastAPI(
        title="Tagloom",
        version=__version__,
        summary="Puts every label on an image.",
        openapi_url="/v1/openapi.json",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    routers = (*routers, pages.routes(content))
    for router in routers:
        app.include_router(router)
    app.add_exception_handler(Refusal, _answer_refusal)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(Exception, _answer_fault)
    guarded = Access(access.host, access.token, access.origins, health.OPEN_PATHS | frozenset(content))
    app.add_middleware(Guard, access=guarded)
    if access.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(access.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    routes = [route for router in routers for route in router.routes]
    app.add_middleware(Counted, metrics=service.metrics, routes=routes)
    return app


class Counted:
    """Counts requests by the pattern of their endpoint and by the code of their answer."""

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Sequence[BaseRoute]) -> None:
        self.app = app
        self.metrics = metrics
        self.patterns = [(route.path_regex, route.path) for route in routes if isinstance(route, Route)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        endpoint = next((path for pattern, path in self.patterns if pattern.match(scope["path"])), "other")
        code = "499"  # the client left before there was an answer

        async def watched(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = str(message["status"])
            await send(message)

        begun = time.monotonic()
        with self.metrics.in_progress.labels(endpoint).track_inprogress():
            try:
                await self.app(scope, receive, watched)
            finally:
                self.metrics.requests.labels(endpoint, code).inc()
                self.metrics.seconds.labels(endpoint, code).observe(time.monotonic() - begun)


async def _answer_refusal(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)  # noqa: S101
    return JSONResponse({"error": error.message}, error.code, error.headers)


async def _answer_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101
    return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)


async def _answer_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return JSONResponse({"error": f"{where}: {first['msg']}"}, 422)


async def _answer_fault(request: Request, error: Exception) -> JSONResponse:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return JSONResponse({"error": "the server failed on this request. Its log says why."}, 500)
