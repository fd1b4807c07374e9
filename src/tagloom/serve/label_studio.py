"""Label Studio's ML backend: tags as suggestions for an image project with `Choices`.

Label Studio sends where the picture of a task is, not the picture. Nothing is ever fetched from an address: a picture
is read from the folder that the server was started with (`--label-studio-files`), or from the task (a data: URI).
"""

import asyncio
import base64
import binascii
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from tagloom import __version__
from tagloom.data.regular_file import read_regular
from tagloom.errors import ImageError
from tagloom.serve.limits import Refusal
from tagloom.serve.service import Service
from tagloom.serve.taggers import ServedTagger

MAX_CONFIG = 2**18
UPLOADS, LOCAL_FILES = "/data/upload/", "/data/local-files/"
_BODY = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
}


class Question(NamedTuple):
    """What a labelling configuration asks.

    Attributes:
        choices: The name of the Choices.
        image: The name of the Image that they are about.
        value: The field of a task's data that holds the picture.
        names: The values that can be chosen, in order.
        multiple: Whether several can be.
    """

    choices: str
    image: str
    value: str
    names: tuple[str, ...]
    multiple: bool


@dataclass(frozen=True)
class TaskFiles:
    """Where pictures of tasks are read from.

    Attributes:
        folder: Label Studio's media folder, or the root of its local files; None for nowhere.
        most_bytes: The largest file that is read.
    """

    folder: Path | None = None
    most_bytes: int = 32 * 2**20

    def read(self, address: object) -> bytes:
        """Read the picture that a task names.

        Raises:
            Refusal: 422 if it is not in the folder, 413 if it is too large.
        """
        if isinstance(address, str) and address.startswith("data:"):
            return _from_data_uri(address)
        place = _relative_place(address)
        if place is None:
            raise Refusal(
                422,
                "addresses are not fetched. Pictures must be uploads or local files of Label Studio, or data: URIs.",
            )
        if self.folder is None:
            raise Refusal(422, "this server may not read files. Start it with --label-studio-files FOLDER.")
        root = self.folder.resolve()
        for inside in (place, f"upload/{place}"):
            try:
                path = (root / inside).resolve()
                if path.is_relative_to(root) and path.is_file():
                    data = read_regular(path, self.most_bytes)
                    if len(data) > self.most_bytes:
                        raise Refusal(413, f"a task's picture is larger than {self.most_bytes:,} bytes.")
                    return data
            except (OSError, ValueError):
                continue
        raise Refusal(422, f"a task's picture ({place[:120]!r}) is not in the folder of --label-studio-files.")


def routes(service: Service, files: TaskFiles) -> APIRouter:
    """Give the routes of the backend."""
    router = APIRouter(tags=["label studio"])

    @router.get("/health", summary="Whether the backend runs")
    async def health() -> JSONResponse:
        return JSONResponse({"status": "UP", "model_class": "Tagloom"})

    @router.post("/setup", openapi_extra=_BODY, summary="Connect a project")
    async def setup(request: Request) -> JSONResponse:
        async with service.desk.json(request) as asked:
            config = asked.get("schema")
            if config:  # Label Studio sends an empty one to see whether anybody is there
                read_config(config)
        return JSONResponse({"model_version": model_version(service.tagger(None))})

    @router.post("/predict", openapi_extra=_BODY, summary="Suggest choices for tasks")
    async def predict(request: Request, model: str | None = None) -> JSONResponse:
        served = service.tagger(model)
        async with service.desk.json(request) as asked:
            question = read_config(asked.get("label_config"))
            tasks = asked.get("tasks")
            if not isinstance(tasks, list) or not tasks:
                raise Refusal(422, "tasks must be a list with at least one task.")
            if len(tasks) > service.limits.pictures:
                raise Refusal(413, f"{len(tasks)} tasks in one request; this server takes {service.limits.pictures}.")
            pictures = [await asyncio.to_thread(files.read, _field(task, question.value)) for task in tasks]
            labels = question.names if served.takes_words and question.names else None
            found = await service.scores(served, pictures, labels)
        tagger = await served.of_labels(labels)
        results = []
        for row in found:
            tags = [] if isinstance(row, ImageError) else tagger.tags(row)
            results.append(suggestion(question, {tag.label: tag.score for tag in tags}, model_version(served)))
        return JSONResponse({"results": results, "model_version": model_version(served)})

    return router


def model_version(served: ServedTagger) -> str:
    """Name the tagger that makes suggestions."""
    return f"{served.name} (tagloom {__version__})"


def suggestion(question: Question, tags: dict[str, float], version: str) -> dict[str, Any]:
    """Write tags, best first, as a prediction. Its score is that of the least sure choice: Label Studio sorts by it."""
    known = {name.casefold(): name for name in question.names}
    chosen = {known[label.casefold()]: score for label, score in tags.items() if label.casefold() in known}
    if not question.names:  # a project whose choices come from its tasks
        chosen = tags
    if not question.multiple:
        chosen = dict(list(chosen.items())[:1])
    result = {
        "from_name": question.choices,
        "to_name": question.image,
        "type": "choices",
        "value": {"choices": list(chosen)},
    }
    score = round(min(chosen.values(), default=0.0), 6)
    return {"result": [result] if chosen else [], "score": score, "model_version": version}


def read_config(config: object) -> Question:
    """Find the Choices about an Image in a labelling configuration.

    Raises:
        Refusal: 422 if there are none, or if it is not XML.
    """
    if not isinstance(config, str) or len(config) > MAX_CONFIG or "<!" in config.replace("<!--", ""):
        raise Refusal(422, "label_config must be Label Studio's XML, without a DOCTYPE.")
    try:
        root = ElementTree.fromstring(config)  # noqa: S314  without a DOCTYPE there are no entities to expand
    except ElementTree.ParseError as error:
        raise Refusal(422, f"label_config is not XML: {error}") from None
    images = {tag.get("name"): tag.get("value", "") for tag in root.iter("Image")}
    for tag in root.iter("Choices"):
        image = tag.get("toName")
        if image is not None and image in images and tag.get("name"):
            names = tuple(choice.get("value", "") for choice in tag.iter("Choice") if choice.get("value"))
            multiple = tag.get("choice", "single") == "multiple"
            return Question(str(tag.get("name")), image, images[image].removeprefix("$"), names, multiple)
    raise Refusal(422, "label_config has no <Choices> about an <Image>.")


def _field(task: object, name: str) -> object:
    data = task.get("data") if isinstance(task, dict) else None
    if not isinstance(data, dict) or name not in data:
        raise Refusal(422, f"a task has no data under {name[:80]!r}.")
    return data[name]


def _relative_place(address: object) -> str | None:
    """Give the place of a picture below the folder of files, or None for an address of somewhere else."""
    if not isinstance(address, str):
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.path.startswith(UPLOADS):
        return unquote(parts.path.removeprefix(UPLOADS))
    if parts.path == LOCAL_FILES or parts.path == LOCAL_FILES.rstrip("/"):
        return parse_qs(parts.query).get("d", [None])[0]
    return None


def _from_data_uri(address: str) -> bytes:
    head, _, content = address.partition(",")
    if not head.endswith(";base64"):
        raise Refusal(422, "a data: URI must hold a picture in base64.")
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(422, "a data: URI must hold a picture in base64.") from None
