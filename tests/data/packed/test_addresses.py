"""Packed data at an address: only what is needed is fetched, and what goes wrong is said."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import pytest

from tagloom.data import load_table
from tagloom.data.images import read_image
from tagloom.data.packed import shards
from tagloom.data.packed.packing import pack
from tagloom.errors import DataError, ImageError, MissingExtraError


@pytest.fixture
def memory(photos, tmp_path, small_groups) -> Iterator[str]:
    pack(photos, tmp_path / "shards", shard_bytes=3000)
    system = fsspec.filesystem("memory")
    system.put(str(tmp_path / "shards"), "/bucket/shards", recursive=True)
    yield "memory://bucket/shards"
    system.rm("/bucket", recursive=True)


def test_an_address_is_a_table_like_the_folder(photos, memory, tmp_path):
    table = load_table(memory)
    assert table.fingerprint() == photos.fingerprint()
    for row in (0, 22, 9):
        assert read_image(table.image(row)) == photos.path(row).read_bytes()
    assert str(table.image(0)) == "memory:///bucket/shards/train-00000.parquet/0.png"
    assert len(load_table(f"file://{tmp_path}/shards#train")) == len(photos)


def test_a_run_keeps_the_address_of_its_data_as_it_is(memory):
    from tagloom.data.formats import is_there
    from tagloom.recipe import recipe_from_dict
    from tagloom.training.plan import RunPlan

    assert RunPlan(f"{memory}#train", None, recipe_from_dict({})).placed().data == "memory://bucket/shards#train"
    assert is_there(memory)
    assert not is_there("nowhere/shards#train")


def test_a_connection_that_is_lost_is_tried_again(photos, memory, monkeypatch):
    table = load_table(memory)
    monkeypatch.setattr(shards, "_WAIT_SECONDS", 0)
    real, failures = shards.open_parquet, [OSError("lost"), OSError("lost again")]

    def failing(place, *arguments, **options):
        if failures:
            raise failures.pop()
        return real(place, *arguments, **options)

    monkeypatch.setattr(shards, "open_parquet", failing)
    assert read_image(table.image(0)) == photos.path(0).read_bytes()
    failures += [OSError("gone")] * 3
    with pytest.raises(ImageError, match=r"cannot be read from its shard \(gone\)"):
        read_image(table.image(22))


def test_what_is_wrong_with_an_address_is_said(memory, monkeypatch):
    with pytest.raises(DataError, match=r"holds no \.parquet file"):
        load_table("memory://bucket/nothing")
    with pytest.raises(DataError, match="no such file"):
        load_table("memory://bucket/nothing.parquet")
    with pytest.raises(DataError, match="is not an address that fsspec knows"):
        load_table("gopher://bucket/shards")
    with pytest.raises(DataError, match="unknown option for packed data 'absent'"):
        load_table(memory, absent="negative")
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(MissingExtraError, match=r"tagloom\[remote\]"):
        load_table(memory)


class Ranges(BaseHTTPRequestHandler):
    """Serves the files of a folder, in ranges, and counts the bytes of each."""

    folder: Path
    sent: dict[str, int]

    def do_HEAD(self) -> None:
        self.do_GET(body=False)

    def do_GET(self, body: bool = True) -> None:
        path = self.folder / self.path.strip("/")
        if path.is_dir():
            data = "".join(f'<a href="{file.name}">{file.name}</a>' for file in path.iterdir()).encode()
            self.send_response(200)
        elif not path.is_file():
            self.send_error(404)
            return
        else:
            data = path.read_bytes()
            self.send_response(206 if "Range" in self.headers else 200)
            self.send_header("Accept-Ranges", "bytes")
            if "Range" in self.headers:
                first, last = self.headers["Range"].removeprefix("bytes=").split("-")
                whole = len(data)
                data = data[int(first) : int(last or whole) + 1]
                self.send_header("Content-Range", f"bytes {first}-{int(first) + len(data) - 1}/{whole}")
            if body:
                self.sent[path.name] = self.sent.get(path.name, 0) + len(data)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def web(tmp_path) -> Iterator[tuple[str, dict[str, int]]]:
    sent: dict[str, int] = {}
    handler = type("Handler", (Ranges,), {"folder": tmp_path, "sent": sent})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", sent
    server.shutdown()
    thread.join(timeout=10)
    server.server_close()


def test_over_http_only_the_row_groups_that_are_asked_for_are_fetched(photos, tmp_path, web, monkeypatch):
    for row in range(len(photos)):  # noise of 2 MB each: 46 MB in three shards
        (tmp_path / "photos" / f"{row}.png").write_bytes(bytes([row]) * 2_000_000)
    pack(photos, tmp_path / "shards", shard_bytes=16 * 2**20)
    address, sent = web
    table = load_table(f"{address}/shards/")
    assert table.fingerprint() == photos.fingerprint()
    assert len(sent) == 3
    assert sum(sent.values()) < 2_000_000  # no picture: footers, names and labels
    before = sent["train-00000.parquet"]
    assert read_image(table.image(0)) == photos.path(0).read_bytes()
    assert sent["train-00000.parquet"] - before < 11_000_000  # one row group of five pictures
    whole = dict(sent)
    read_image(table.image(4))  # of the same row group
    assert sent == whole
