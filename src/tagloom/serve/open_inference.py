"""The Open Inference Protocol, version 2, as Triton and KServe speak it: tensors in, tensors out.

A tagger takes one input: `image`, BYTES of shape [B], encoded images; or `pixels`, UINT8 of shape [B, H, W, 3]. It
gives `scores`, FP32 [B, N], and `labels`, BYTES [N], the names of the columns. Tensors come as JSON, in which encoded
images are base64, or as raw bytes behind the JSON (the binary tensor extension).
"""

import asyncio
import base64
import binascii
import json
import math
import struct
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from numpy.typing import NDArray

from tagloom import __version__
from tagloom.errors import ImageError
from tagloom.serve.bodies import JSON_BYTES, read_object
from tagloom.serve.limits import Limits, Refusal, refuse_image
from tagloom.serve.service import Service
from tagloom.serve.taggers import Picture, ServedTagger

HEADER_LENGTH = "Inference-Header-Content-Length"
PLATFORM = "tagloom"
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object", "required": ["inputs"]}}},
    }
}


def routes(service: Service) -> APIRouter:
    """Give the routes of the protocol."""
    router = APIRouter(prefix="/v2", tags=["open inference protocol"])

    @router.get("", summary="About this server")
    async def server() -> JSONResponse:
        return JSONResponse({"name": "tagloom", "version": __version__, "extensions": ["binary_tensor_data"]})

    @router.get("/health/live", summary="Whether the server runs")
    async def live() -> JSONResponse:
        return JSONResponse({"live": True})

    @router.get("/health/ready", summary="Whether it takes requests", responses={503: {"description": "Stopping."}})
    async def ready() -> JSONResponse:
        return JSONResponse({"ready": service.ready}, 200 if service.ready else 503)

    @router.get("/models/{name}", summary="About a tagger")
    async def model(name: str) -> JSONResponse:
        return JSONResponse(metadata(service.tagger(name)))

    @router.get("/models/{name}/ready", summary="Whether a tagger takes requests")
    async def model_ready(name: str) -> JSONResponse:
        return JSONResponse({"name": service.tagger(name).name, "ready": service.ready})

    @router.post("/models/{name}/infer", openapi_extra=_BODY, summary="Score pictures")
    async def infer(name: str, request: Request) -> Response:
        served = service.tagger(name)
        async with service.desk.body(request) as data:
            asked, raw = await asyncio.to_thread(_split, data, request.headers.get(HEADER_LENGTH))
            pictures = await asyncio.to_thread(read_pictures, asked, raw, service.limits)
            found = await service.scores(served, pictures)
        for number, result in enumerate(found):
            if isinstance(result, ImageError):
                raise refuse_image(result, f"picture {number + 1}")
        scores = np.stack([row for row in found if not isinstance(row, ImageError)])
        return _answer(served, asked, scores)

    return router


def metadata(served: ServedTagger) -> dict[str, Any]:
    """Describe a tagger's tensors."""
    count = len(served.tagger.classes)
    return {
        "name": served.name,
        "versions": ["1"],
        "platform": PLATFORM,
        "inputs": [
            {"name": "image", "datatype": "BYTES", "shape": [-1]},
            {"name": "pixels", "datatype": "UINT8", "shape": [-1, -1, -1, 3]},
        ],
        "outputs": [
            {"name": "scores", "datatype": "FP32", "shape": [-1, count]},
            {"name": "labels", "datatype": "BYTES", "shape": [count]},
        ],
    }


def read_pictures(asked: dict[str, Any], raw: bytes, limits: Limits) -> list[Picture]:
    """Read the pictures of a request.

    Args:
        asked: Its JSON.
        raw: The bytes behind the JSON.
        limits: What is accepted.

    Raises:
        Refusal: 400 if its tensor is not as described above, 413 if there are too many pictures or pixels.
    """
    inputs = asked.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        raise Refusal(400, "inputs must be a list of one tensor: image (BYTES), or pixels (UINT8).")
    tensor = inputs[0]
    kind = tensor.get("name"), tensor.get("datatype")
    if kind not in (("image", "BYTES"), ("pixels", "UINT8")):
        raise Refusal(400, "the input must be image with datatype BYTES, or pixels with datatype UINT8.")
    shape = tensor.get("shape")
    if not isinstance(shape, list) or not shape or not all(type(size) is int and size > 0 for size in shape):
        raise Refusal(400, "the shape of the input must be a list of positive whole numbers.")
    if shape[0] > limits.pictures:
        raise Refusal(413, f"{shape[0]} pictures in one request; this server takes {limits.pictures}.")
    parameters = tensor.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is not None and size != len(raw):
        raise Refusal(400, f"binary_data_size does not fit the {len(raw)} bytes behind the JSON.")
    content: Any = raw if size is not None else tensor.get("data")
    if kind[0] == "image":
        return _encoded(content, math.prod(shape))
    return _pixels(content, shape, limits)


def _encoded(content: Any, count: int) -> list[Picture]:
    """Read encoded images: base64 in JSON; or each behind its length, as four bytes, little-endian."""
    found: list[Picture] = []
    if isinstance(content, bytes):
        place = 0
        while place + 4 <= len(content):
            (length,) = struct.unpack_from("<I", content, place)
            found.append(content[place + 4 : place + 4 + length])
            place += 4 + length
        if place != len(content):
            raise Refusal(400, "the bytes behind the JSON end within a picture.")
    else:
        try:
            found = [base64.b64decode(text, validate=True) for text in _flat(content)]
        except (binascii.Error, ValueError, TypeError):
            raise Refusal(400, "data must be a list of pictures in base64.") from None
    if len(found) != count:
        raise Refusal(400, f"the shape says {count} pictures, but {len(found)} were sent.")
    return found


def _pixels(content: Any, shape: list[int], limits: Limits) -> list[Picture]:
    """Read pixels (B, H, W, 3)."""
    if len(shape) != 4 or shape[3] != 3:
        raise Refusal(400, "pixels must have the shape [B, H, W, 3].")
    if shape[1] * shape[2] > limits.pixels:
        raise Refusal(413, f"pictures of {shape[1] * shape[2]:,} pixels; this server takes {limits.pixels:,}.")
    try:
        if isinstance(content, bytes):
            values = np.frombuffer(content, np.uint8)
        else:
            wide = np.asarray(content)
            if wide.dtype.kind != "i" or wide.size == 0 or wide.min() < 0 or wide.max() > 255:
                raise ValueError("not whole numbers from 0 to 255")
            values = wide.astype(np.uint8)
        return list(values.reshape(shape))
    except (ValueError, TypeError, OverflowError):
        raise Refusal(400, "data must be whole numbers from 0 to 255, as many as the shape says.") from None


def _flat(content: Any) -> list[Any]:
    """Flatten nested lists."""
    if not isinstance(content, list):
        raise TypeError
    return [value for part in content for value in (_flat(part) if isinstance(part, list) else [part])]


def _split(data: bytes, header_length: str | None) -> tuple[dict[str, Any], bytes]:
    """Split a body into its JSON and the bytes behind it."""
    if header_length is None:
        length = len(data)
    elif header_length.isdecimal() and int(header_length) <= len(data):
        length = int(header_length)
    else:
        raise Refusal(400, f"{HEADER_LENGTH} must be the length of the JSON within the body.")
    if length > JSON_BYTES:
        raise Refusal(413, f"the JSON is longer than {JSON_BYTES:,} bytes. Send pictures as binary data behind it.")
    return read_object(data[:length]), data[length:]


def _answer(served: ServedTagger, asked: dict[str, Any], scores: NDArray[np.float32]) -> Response:
    """Write the tensors that were asked for, as JSON or as raw bytes."""
    labels = list(served.tagger.classes)
    wanted = _wanted(asked)
    outputs: list[dict[str, Any]] = []
    tail = b""
    for name, binary in wanted.items():
        if name == "scores":
            tensor = {"name": name, "datatype": "FP32", "shape": list(scores.shape)}
            raw = scores.astype("<f4").tobytes()
            plain: list[Any] = [round(value, 6) for value in scores.ravel().tolist()]
        else:
            tensor = {"name": name, "datatype": "BYTES", "shape": [len(labels)]}
            encoded = [label.encode("utf-8", "replace") for label in labels]
            raw, plain = b"".join(struct.pack("<I", len(text)) + text for text in encoded), labels
        if binary:
            outputs.append(tensor | {"parameters": {"binary_data_size": len(raw)}})
            tail += raw
        else:
            outputs.append(tensor | {"data": plain})
    answer = {"model_name": served.name, "model_version": "1", "outputs": outputs}
    if isinstance(asked.get("id"), str):
        answer["id"] = asked["id"]
    if not tail:
        return JSONResponse(answer)
    head = json.dumps(answer).encode()
    headers = {HEADER_LENGTH: str(len(head))}
    return Response(head + tail, headers=headers, media_type="application/octet-stream")


def _wanted(asked: dict[str, Any]) -> dict[str, bool]:
    """Give the outputs that are asked for, and whether each is wanted as raw bytes."""
    parameters = asked.get("parameters")
    binary = isinstance(parameters, dict) and parameters.get("binary_data_output") is True
    given = asked.get("outputs")
    if not given:
        return {"scores": binary, "labels": binary}
    wanted: dict[str, bool] = {}
    for output in given if isinstance(given, list) else [None]:
        if not isinstance(output, dict) or output.get("name") not in ("scores", "labels"):
            raise Refusal(400, "outputs must be a list of tensors by name: scores, labels.")
        own = output.get("parameters")
        wanted[output["name"]] = own.get("binary_data") is True if isinstance(own, dict) else binary
    return wanted
