"""The page: plain files, read once when the server starts, so that no request names a path."""

import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files

from fastapi import APIRouter, Request
from fastapi.responses import Response

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
INDEX = "index.html"
"""The page to try taggers on."""
REVIEW = "review.html"
"""The page to review tags on."""


def static_files(index: str = INDEX) -> dict[str, bytes]:
    """Read the files of a page, by the path under which they are served; `index` is served as "/"."""
    folder = files("tagloom.serve") / "static"
    found = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(tuple(KINDS))}
    others = {name: content for name, content in sorted(found.items()) if not name.endswith(".html")}
    return {"/": found[index]} | {f"/static/{name}": content for name, content in others.items()}


def routes(content: dict[str, bytes]) -> APIRouter:
    """Give a route for each file."""
    router = APIRouter(include_in_schema=False)
    for path, data in content.items():
        name = INDEX if path == "/" else path
        kind = next(kind for suffix, kind in KINDS.items() if name.endswith(suffix))
        router.add_api_route(path, _sender(data, kind), methods=["GET", "HEAD"])
    return router


def _sender(data: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    tag = f'"{hashlib.blake2b(data, digest_size=8).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}  # asked again every time, but sent only if it changed

    async def send(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=kind, headers=headers)

    return send
