"""Health, readiness and figures: what a load balancer and Prometheus ask."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from tagloom.serve.metrics import CONTENT_TYPE
from tagloom.serve.served import Served

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/health", "/v2/health/live", "/v2/health/ready"})
"""Answered without a token: they say nothing but yes or no."""


def routes(service: Served) -> APIRouter:
    """Give the routes."""
    router = APIRouter(tags=["health"])

    @router.get("/healthz", summary="Whether the server runs")
    async def healthy() -> JSONResponse:
        return JSONResponse({"status": "ok"})

    @router.get("/readyz", summary="Whether it takes requests", responses={503: {"description": "It is stopping."}})
    async def ready() -> JSONResponse:
        if service.ready:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "stopping"}, 503)

    @router.get("/metrics", summary="Figures for Prometheus", response_class=Response)
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    return router
