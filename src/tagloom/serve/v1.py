"""The API of the page, under /v1: predict, explain, models."""

import base64
import math
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from tagloom.errors import ImageError
from tagloom.predict.tagger import Tag, Tagger
from tagloom.serve.forms import Upload
from tagloom.serve.limits import IMAGE_CODES, refuse_image
from tagloom.serve.service import Service
from tagloom.serve.taggers import ServedTagger


class TagAnswer(BaseModel):
    """A label, and how sure the tagger is of it."""

    label: str
    score: float = Field(ge=0, le=1)


class PictureError(BaseModel):
    """What is wrong with one picture among several."""

    code: int
    message: str


class PictureAnswer(BaseModel):
    """The tags of a picture, or what is wrong with it."""

    name: str | None
    tags: list[TagAnswer] | None = None
    scores: dict[str, float] | None = None
    error: PictureError | None = None


class PredictAnswer(BaseModel):
    """The answer to /v1/predict: a result for each picture, in order."""

    model: str
    results: list[PictureAnswer]


class HeatAnswer(BaseModel):
    """Where a label comes from: the network's own grid, and a greyscale PNG in the shape of the picture."""

    label: str
    score: float
    grid: list[list[float]]
    map: str = Field(description="A greyscale PNG, base64: white where the label comes from.")


class ExplainAnswer(BaseModel):
    """The answer to /v1/explain."""

    model: str
    method: str
    labels: list[HeatAnswer]


class ModelAnswer(BaseModel):
    """A tagger that this server has."""

    name: str
    classes: list[str]
    thresholds: list[float]
    task: str
    takes_words: bool
    methods: list[str] = Field(description="How it makes heat maps, its usual way first; empty if it makes none.")
    head: str
    backbone: str
    size: int
    metrics: dict[str, Any]


class ModelsAnswer(BaseModel):
    """The taggers of this server; the first one answers where none is named."""

    models: list[ModelAnswer]
    limits: dict[str, float]


class ErrorAnswer(BaseModel):
    """Why there is no other answer."""

    error: str


_PICTURE = {"type": "string", "format": "binary"}
PICTURES_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {"schema": _PICTURE},
            "image/*": {"schema": _PICTURE},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"file": {"type": "array", "items": _PICTURE}},
                    "required": ["file"],
                }
            },
        },
    }
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorAnswer} for code in (400, 401, 403, 404, 408, 413, 415, 421, 422, 429, 504)
}

ModelName = Annotated[str | None, Query(description="The tagger (default: the first).", max_length=200)]
Labels = Annotated[list[str] | None, Query(description="Labels to choose from; repeat it for several.", max_length=512)]


def routes(service: Service) -> APIRouter:
    """Give the routes of the API."""
    router = APIRouter(prefix="/v1", tags=["tagloom"], responses=REFUSALS)

    @router.get("/models", response_model=ModelsAnswer, summary="List the taggers of this server")
    async def models() -> JSONResponse:
        limits = service.limits
        return JSONResponse(
            {
                "models": [describe(served) for served in service.taggers.values()],
                "limits": {
                    "body_bytes": limits.body_bytes,
                    "pixels": limits.pixels,
                    "pictures": limits.pictures,
                    "labels": limits.labels,
                    "explained": limits.explained,
                    "deadline_seconds": limits.deadline_seconds,
                },
            }
        )

    @router.post(
        "/predict", response_model=PredictAnswer, openapi_extra=PICTURES_BODY, summary="Tag one picture or many"
    )
    async def predict(
        request: Request,
        model: ModelName = None,
        threshold: Annotated[float | None, Query(ge=0, le=1, description="One threshold for all labels.")] = None,
        top_k: Annotated[int | None, Query(ge=1, le=100_000, description="The most tags per picture.")] = None,
        labels: Labels = None,
        scores: Annotated[bool, Query(description="Also give the score of every label.")] = False,
    ) -> JSONResponse:
        served = service.tagger(model)
        async with service.desk.pictures(request) as uploads:
            found = await service.scores(served, [upload.data for upload in uploads], labels)
            if len(found) == 1 and isinstance(found[0], ImageError):
                raise refuse_image(found[0], uploads[0].name)
            chosen = await served.of_labels(labels and [label.strip() for label in labels])
            results = [
                picture_answer(chosen, upload, result, threshold, top_k, scores)
                for upload, result in zip(uploads, found, strict=True)
            ]
        return JSONResponse({"model": served.name, "results": results})

    @router.post(
        "/explain", response_model=ExplainAnswer, openapi_extra=PICTURES_BODY, summary="Show where labels come from"
    )
    async def explain(
        request: Request,
        model: ModelName = None,
        labels: Labels = None,
        method: Annotated[str | None, Query(description="The method (default: the head's).", max_length=40)] = None,
    ) -> JSONResponse:
        served = service.tagger(model)
        async with service.desk.pictures(request) as uploads:
            try:
                found = await service.explain(served, uploads[0].data, labels, method)
            except ImageError as error:
                raise refuse_image(error, uploads[0].name) from None
        heats = [
            {
                "label": heat.label,
                "score": heat.score,
                "grid": np.round(heat.grid.astype(float), 4).tolist(),
                "map": base64.b64encode(heat.png).decode(),
            }
            for heat in found.heats
        ]
        return JSONResponse({"model": served.name, "method": found.method, "labels": heats})

    return router


def describe(served: ServedTagger) -> dict[str, Any]:
    """Say what a client has to know about a tagger."""
    spec = served.tagger.spec
    return {
        "name": served.name,
        "classes": list(served.tagger.classes),
        "thresholds": [round(value, 6) for value in spec.threshold_row().tolist()],
        "task": spec.task,
        "takes_words": served.takes_words,
        "methods": list(served.methods),
        "head": spec.head,
        "backbone": spec.backbone,
        "size": spec.preprocess.size,
        "metrics": _figures(spec.metrics),
    }


def picture_answer(
    tagger: Tagger,
    upload: Upload,
    result: NDArray[np.float32] | ImageError,
    threshold: float | None,
    top_k: int | None,
    with_scores: bool,
) -> dict[str, Any]:
    """Write down the result of a picture."""
    if isinstance(result, ImageError):
        message = refuse_image(result, upload.name).message
        return {"name": upload.name, "error": {"code": IMAGE_CODES[result.reason], "message": message}}
    tags: list[Tag] = tagger.tags(result, threshold, top_k)
    answer: dict[str, Any] = {
        "name": upload.name,
        "tags": [{"label": tag.label, "score": round(tag.score, 6)} for tag in tags],
    }
    if with_scores:
        values = np.round(result.astype(float), 6).tolist()
        answer["scores"] = dict(zip(tagger.classes, values, strict=True))
    return answer


def _figures(metrics: dict[str, Any]) -> dict[str, Any]:
    """Keep the single figures of a tagger's metrics, by the images they were measured on."""
    kept = {}
    for images, figures in metrics.items():
        if isinstance(figures, dict):
            numbers = {name: value for name, value in figures.items() if _is_figure(value)}
            kept[str(images)] = numbers
    return kept


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
