"""Real servers for tests, on loopback: in a thread of the test, and a client that can also misbehave."""

import http.client
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from tagloom.predict.tagger import Tagger


@dataclass(frozen=True)
class Answer:
    """What a server answered; header names in lower case."""

    code: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Client:
    """Asks the server on a port of loopback."""

    port: int
    app: Any = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, path: str, body: Any = b"", **headers: str) -> Answer:
        return self.ask("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})

    def post_json(self, path: str, content: Any) -> Answer:
        return self.post(path, json.dumps(content).encode(), Content_Type="application/json")

    def post_form(self, path: str, files: dict[str, bytes]) -> Answer:
        body, kind = form(files)
        return self.post(path, body, Content_Type=kind)


def form(files: dict[str, bytes]) -> tuple[bytes, str]:
    """Write files as a form; gives the body and its content type."""
    boundary = "a-boundary-of-the-tests"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        f"Content-Type: application/octet-stream\r\n\r\n".encode()
        + data
        + b"\r\n"
        for name, data in files.items()
    ]
    return b"".join(parts) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


@contextmanager
def serving(taggers: dict[str, Tagger], **options: Any) -> Iterator[Client]:
    """Serve taggers in a thread, on any free port."""
    from tagloom.serve.app import create_app

    with running(create_app(taggers, **options)) as client:
        yield client


@contextmanager
def running(app: Any) -> Iterator[Client]:
    """Run an application in a thread, on any free port."""
    from tagloom.serve.run import listen, make_server

    opened = listen("127.0.0.1", 0)
    server = make_server(app)
    thread = threading.Thread(target=lambda: server.run(sockets=[opened]), daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    try:
        yield Client(opened.getsockname()[1], app)
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive(), "the server does not stop"


class HeldTagger(Tagger):
    """A tagger that computes only while it is let go."""

    def __init__(self, inner: Tagger) -> None:
        super().__init__(inner.spec, inner._network, inner.engine, name="held")
        self.go = threading.Event()
        self.begun = 0
        self.pictures = 0

    def stream(self, pictures):
        pictures = list(pictures)
        self.begun += 1
        self.pictures += len(pictures)
        assert self.go.wait(20)
        yield from ((index, np.full(len(self.classes), 0.5, np.float32)) for index in range(len(pictures)))


def wait_until(condition: Any, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def encoded(seed: int, size: tuple[int, int] = (48, 36), kind: str = "JPEG") -> bytes:
    """A picture of noise, encoded."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1] // 6, size[0] // 6, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).resize(size).save(file, kind)
    return file.getvalue()
