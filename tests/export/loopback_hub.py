"""A hub of our own on this machine: as much of the Hugging Face hub as its client needs to send and fetch a tagger."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_loopback"


class Hub:
    """What the hub holds.

    Attributes:
        url: Where it answers.
        repositories: The files of each repository's newest commit.
        private: Which repositories were made private.
        commits: The names of all commits, in order.
    """

    def __init__(self) -> None:
        self.url = ""
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.commits: list[str] = []
        self.blobs: dict[str, bytes] = {}

    def create(self, wanted: dict[str, Any]) -> dict[str, Any]:
        name = f"{wanted['organization']}/{wanted['name']}"
        self.repositories.setdefault(name, {})
        self.private.setdefault(name, wanted.get("visibility") == "private" or wanted.get("private") is True)
        return {"url": f"{self.url}/{name}", "name": name}

    def commit(self, name: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                self.repositories[name][value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                self.repositories[name][value["path"]] = self.blobs[value["oid"]]
        self.commits.append(_name_of(repr(self.repositories[name]).encode()))
        return {"commitUrl": f"{self.url}/{name}/commit/{self.commits[-1]}", "commitOid": self.commits[-1]}

    def info(self, name: str) -> dict[str, Any]:
        siblings = [{"rfilename": path} for path in sorted(self.repositories[name])]
        return {"id": name, "sha": self.commits[-1], "siblings": siblings, "private": self.private[name], "tags": []}

    def tree(self, name: str) -> list[dict[str, Any]]:
        return [
            {"type": "file", "path": path, "size": len(data), "oid": _name_of(data)}
            for path, data in sorted(self.repositories[name].items())
        ]


@contextmanager
def loopback_hub() -> Iterator[Hub]:
    """Run a hub while the block runs."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def _name_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:40]  # as long as the names that git gives


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self._json({"error": "log in first"}, 401)
            elif self.path == "/api/repos/create":
                self._json(hub.create(json.loads(body)))
            elif found := re.fullmatch(r"/api/models/(.+)/preupload/main", self.path):
                files = [
                    # As the hub does: large and binary files take another way.
                    {
                        "path": file["path"],
                        "uploadMode": "lfs" if file["path"].endswith((".onnx", ".safetensors")) else "regular",
                        "shouldIgnore": False,
                        "oid": None,
                    }
                    for file in json.loads(body)["files"]
                ]
                self._json({"files": files})
            elif self.path == "/api/validate-yaml":
                self._json({"errors": [], "warnings": []})
            elif re.fullmatch(r"/(.+)\.git/info/lfs/objects/batch", self.path):
                objects = [
                    {**entry, "actions": {"upload": {"href": f"{hub.url}/blobs/{entry['oid']}", "header": {}}}}
                    for entry in json.loads(body)["objects"]
                ]
                self._json({"transfer": "basic", "objects": objects})
            elif found := re.fullmatch(r"/api/models/(.+)/commit/main", self.path):
                self._json(hub.commit(found[1], [json.loads(line) for line in body.splitlines() if line]))
            else:
                self._json({"error": f"unknown: POST {self.path}"}, 404)

        def do_PUT(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            oid = self.path.rpartition("/")[2]
            if hashlib.sha256(data).hexdigest() == oid:
                hub.blobs[oid] = data
            self._json({}, 200 if oid in hub.blobs else 400)

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/revision/[^/]+)?", path):
                self._json(hub.info(found[1]))
            elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/.+", path):
                self._json(hub.tree(found[1]))
            elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
                data = hub.repositories[found[1]].get(found[3])
                if data is None:
                    self._json({"error": "no such file"}, 404)
                else:
                    etag = _name_of(data)
                    self._send(data, {"X-Repo-Commit": hub.commits[-1], "ETag": f'"{etag}"', "Accept-Ranges": "none"})
            else:
                self._json({"error": f"unknown: GET {self.path}"}, 404)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *arguments: object) -> None:
            pass

        def _json(self, content: object, status: int = 200) -> None:
            self._send(json.dumps(content).encode(), {"Content-Type": "application/json"}, status)

        def _send(self, data: bytes, headers: dict[str, str], status: int = 200) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    return Handler
