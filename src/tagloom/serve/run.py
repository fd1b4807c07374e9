"""Running the server: its address, its connections, and its end."""

import asyncio
import json
import logging
import os
import socket
import sys
import webbrowser
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from tagloom.errors import TagloomError

HEADER_SECONDS = 15.0
KEEP_ALIVE_SECONDS = 15
BACKLOG = 512
NO_REQUEST = "this is not an HTTP request, or its address and headers are longer than 64 KiB. Send less at once."


class PatientProtocol(H11Protocol):
    """A connection that is closed if it sends no complete request line and headers for a while.

    Uvicorn waits for the first request of a connection for ever, so that idle ones could use up all that there are.
    """

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait."""
        super().connection_made(transport)
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        """Take in bytes; once a request is known, its own limits hold."""
        super().data_received(data)
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy:
            self._stop_waiting()
        elif self._patience is None and not self.transport.is_closing():
            self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop to wait."""
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what no route ever sees, in the form of every other refusal, and close the connection."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # an answer is on its way already
            self.transport.close()
            return
        body = json.dumps({"error": NO_REQUEST}).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("Connection", "close")]
        answer = h11.Response(status_code=400, reason=b"Bad Request", headers=headers)
        for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _wait_for_request(self) -> None:
        self._patience = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


class Server(uvicorn.Server):
    """A server that says when it takes requests, and that is not ready any more once it is asked to stop."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._app_of_service = app
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take requests."""
        await super().startup(sockets)
        if self.started:
            self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish the requests that are being answered, and take no others."""
        self._app_of_service.state.service.ready = False
        await super().shutdown(sockets)


def make_server(app: FastAPI, on_start: Callable[[], None] = lambda: None, **options: Any) -> Server:
    """Make a server of an application.

    Args:
        app: The application.
        on_start: Called when it takes requests.
        options: Further options of uvicorn.
    """
    limits = app.state.service.limits
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(limits.deadline_seconds) + 5,
        backlog=BACKLOG,
        log_level="warning",
        **options,
    )
    return Server(config, app, on_start)


def listen(host: str, port: int) -> socket.socket:
    """Open the socket that the server listens on, so that a port in use is found before taggers are loaded."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        opened = socket.socket(family, kind, protocol)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
    except OSError as error:
        raise TagloomError(
            f"{host}:{port}: cannot be listened on ({error.strerror or error}). Name another --port."
        ) from error
    opened.listen(BACKLOG)
    return opened


def page_address(opened: socket.socket, token: str | None) -> str:
    """Give the address of the page. A token stands behind '#', which browsers do not send."""
    host, port = opened.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"#token={token}" if token else "")


def open_page(address: str) -> bool:
    """Open the page in a browser, where somebody sits in front of one."""
    has_screen = sys.platform in ("win32", "darwin") or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    return has_screen and sys.stdout.isatty() and webbrowser.open(address)
