"""Limits: each has its answer, and whoever breaks one holds up nobody else."""

import json
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterator

import pytest
from serving import Client, HeldTagger, form, serving, wait_until

from tagloom.serve import bodies, run
from tagloom.serve.limits import Limits

SMALL = Limits(
    body_bytes=20_000, all_bodies_bytes=50_000, body_seconds=1.0, pixels=10_000, pictures=3, labels=4, explained=2
)


@pytest.fixture(scope="module")
def strict(tiny) -> Iterator[Client]:
    with serving({"tiny": tiny}, limits=SMALL) as client:
        yield client


def huge_png(width: int, height: int) -> bytes:
    """A PNG whose header claims so many pixels, in less than a hundred bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_a_body_that_is_too_long_gets_413_by_its_announced_length(strict: Client):
    assert strict.post("/v1/predict", bytes(20_001)).code == 413


def test_a_body_that_is_too_long_gets_413_although_it_announces_nothing(strict: Client):
    chunks = (bytes(5_000) for _ in range(20))
    assert strict.post("/v1/predict", chunks).code == 413  # sent in chunks, without a length
    wait_until(lambda: strict.app.state.service.desk.held == 0)


def test_too_many_pixels_get_413_before_they_are_decoded(strict: Client):
    answer = strict.post("/v1/predict", huge_png(400, 300))
    assert answer.code == 413
    assert "120,000 pixels" in answer.json["error"]
    assert strict.post("/v1/predict", huge_png(60_000, 60_000)).code == 413
    assert strict.post("/v1/explain?labels=dog", huge_png(400, 300)).code == 413


def test_another_format_gets_415_and_a_damaged_picture_422(strict: Client, jpeg):
    assert strict.post("/v1/predict", b"%PDF-1.7 something else").code == 415
    assert strict.post("/v1/predict", jpeg[: len(jpeg) // 2]).code == 422


@pytest.mark.parametrize("body", [b"", b"--wrong", b"--a-boundary-of-the-tests\r\nnonsense"])
def test_forms_without_a_picture_and_damaged_ones_are_refused(strict: Client, body):
    code = strict.post("/v1/predict", body, Content_Type=form({})[1]).code
    assert code == 400


def test_a_form_that_is_cut_short_is_refused(strict: Client, jpeg):
    body, kind = form({"a.jpg": jpeg})
    answer = strict.post("/v1/predict", body[:-20], Content_Type=kind)
    assert answer.code == 400
    assert "ends before" in answer.json["error"]


def test_an_empty_body_and_a_form_of_fields_get_422(strict: Client):
    assert strict.post("/v1/predict", b"").code == 422
    field = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n--b--\r\n'
    assert strict.post("/v1/predict", field, Content_Type="multipart/form-data; boundary=b").code == 422


def test_too_many_pictures_get_413_and_too_many_labels_422(strict: Client, jpeg):
    assert strict.post_form("/v1/predict", {f"{number}.jpg": jpeg for number in range(4)}).code == 413
    assert strict.post("/v1/explain?labels=dog&labels=cat&labels=car", jpeg).code == 422


def test_a_full_queue_gets_429_with_retry_after_and_no_answer_in_time_504(tiny, jpeg):
    held = HeldTagger(tiny)
    limits = Limits(waiting=2, batch=1, window_seconds=0, deadline_seconds=3)
    with serving({"held": held}, limits=limits) as client:
        codes: list[int] = []

        def post() -> None:
            codes.append(client.post("/v1/predict", jpeg).code)

        threads = [threading.Thread(target=post) for _ in range(4)]
        for number, thread in enumerate(threads):  # two are computed, two wait
            thread.start()
            queue = client.app.state.service.taggers["held"].scores
            wait_until(lambda number=number, queue=queue: held.begun + len(queue._queue) > number)
        refused = client.post("/v1/predict", jpeg)
        assert refused.code == 429
        assert int(refused.headers["retry-after"]) >= 1
        for thread in threads:
            thread.join()
        assert codes == [504] * 4
        held.go.set()
        wait_until(lambda: not queue._running)
        assert held.pictures == 2, "what waited in vain is not computed"
        assert client.post("/v1/predict", jpeg).code == 200, "and the server lives on"


def half_sent(port: int, announced: int, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {announced}\r\n\r\n"
    connection.sendall(head.encode() + sent)
    return connection


def test_half_sent_bodies_hold_up_nobody_and_get_408(strict: Client, jpeg):
    stuck = [half_sent(strict.port, 1000, jpeg[:100]) for _ in range(20)]
    assert strict.post("/v1/predict", jpeg).code == 200
    for connection in stuck:
        assert connection.recv(1000).startswith(b"HTTP/1.1 408 ")
        connection.close()
    wait_until(lambda: strict.app.state.service.desk.held == 0)


def test_a_client_that_leaves_within_its_body_leaves_nothing_behind(strict: Client, jpeg):
    for _ in range(5):
        half_sent(strict.port, 1000, jpeg[:100]).close()
    wait_until(lambda: strict.app.state.service.desk.held == 0)
    assert strict.post("/v1/predict", jpeg).code == 200


def test_a_body_longer_than_announced_is_cut_and_what_follows_is_no_request(strict: Client, jpeg):
    connection = half_sent(strict.port, len(jpeg), jpeg + b"GARBAGE " * 10)
    answered = connection.recv(100)
    assert answered.startswith(b"HTTP/1.1 200 ")
    connection.close()
    assert strict.post("/v1/predict", jpeg).code == 200


def test_large_bodies_that_are_sent_together_get_429_beyond_what_memory_is_meant_for(strict: Client):
    stuck = [half_sent(strict.port, 19_000, bytes(18_000)) for _ in range(2)]
    wait_until(lambda: strict.app.state.service.desk.held >= 36_000)
    assert strict.post("/v1/predict", bytes(19_000)).code == 429
    for connection in stuck:
        connection.close()
    wait_until(lambda: strict.app.state.service.desk.held == 0)


def test_connections_that_send_no_request_are_closed(tiny, monkeypatch):
    monkeypatch.setattr(run, "HEADER_SECONDS", 0.5)
    with serving({"tiny": tiny}) as client:
        silent, slow = (socket.create_connection(("127.0.0.1", client.port), timeout=20) for _ in range(2))
        slow.sendall(b"POST /v1/predict HT")
        begun = time.monotonic()
        assert (silent.recv(10), slow.recv(10)) == (b"", b"")
        assert time.monotonic() - begun < 15


def test_json_that_is_too_long_too_deep_or_not_finite_is_refused(strict: Client):
    for text, code in ((b"[" * 9_000, 400), (b'{"inputs": NaN}', 400), (b"[]", 400), (bytes(20_001), 413)):
        assert strict.post("/v2/models/tiny/infer", text, Content_Type="application/json").code == code
    assert Limits().body_bytes >= bodies.JSON_BYTES


@pytest.mark.parametrize("sent", [b"GET /" + b"a" * 70_000, b"this is no request\r\n\r\n"])
def test_what_never_becomes_a_request_is_refused_like_everything_else(strict: Client, sent: bytes):
    with socket.create_connection(("127.0.0.1", strict.port), timeout=20) as connection:
        connection.sendall(sent)
        head, _, body = b"".join(iter(lambda: connection.recv(1000), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/json" in head.lower()
    assert "64 KiB" in json.loads(body)["error"]
