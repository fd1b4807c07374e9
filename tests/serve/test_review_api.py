"""What the page of a review asks, and what a stranger may not."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Client, encoded, running, wait_until

from tagloom.predict.tagger import Tagger
from tagloom.review.opening import open_session
from tagloom.serve.guard import Access
from tagloom.serve.reviewing import create_review_app

TOKEN = "a-token-of-the-tests"


@pytest.fixture
def client(tiny: Tagger, tmp_path: Path) -> Iterator[Client]:
    with running(create_review_app(opened(tiny, tmp_path))) as client:
        yield client


def opened(tiny: Tagger, folder: Path):
    (folder / "photos").mkdir()
    for number in range(3):
        (folder / "photos" / f"{number}.jpg").write_bytes(encoded(number))
    return open_session(tiny, [folder / "photos"], folder / "out", cache_folder=folder)[0]


def test_a_photo_is_named_by_its_row_only(client: Client) -> None:
    answer = client.get("/v1/review/photos/1?side=480")
    assert (answer.code, answer.headers["content-type"]) == (200, "image/jpeg")
    assert answer.headers["cache-control"] == "no-store", "another review may run on this port tomorrow"
    assert client.get("/v1/review/photos/3").code == 404
    assert client.get("/v1/review/photos/-1").code == 404
    assert client.get("/v1/review/photos/1?side=9999").code == 422
    assert client.get("/v1/review/photos/..%2f..%2fetc%2fpasswd").code in (404, 422)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ({"row": 0, "yes": ["dog"]}, 200),
        ({"row": 3, "yes": []}, 404),
        ({"row": True, "yes": []}, 404),
        ({"row": 0, "yes": "dog"}, 422),
        ({"row": 0, "yes": [1]}, 422),
        ({"row": 0, "yes": ["unheard of"]}, 422),
    ],
)
def test_only_what_makes_sense_is_noted(client: Client, content: dict, code: int) -> None:
    answer = client.post_json("/v1/review/answers", content)
    assert answer.code == code
    assert client.get("/v1/review").json["answered"] == (code == 200)


def test_retraining_too_early_is_answered_and_does_no_harm(client: Client) -> None:
    client.post("/v1/review/retrain")
    wait_until(lambda: client.get("/v1/review").json["retraining"]["state"] == "failed")
    assert "too little to learn from" in client.get("/v1/review").json["retraining"]["message"]


def test_pages_of_other_sites_and_requests_without_the_token_are_refused(tiny: Tagger, tmp_path: Path) -> None:
    session = opened(tiny, tmp_path)
    with running(create_review_app(session, access=Access(token=TOKEN))) as locked:
        assert locked.get("/").code == 200, "the empty page holds no secrets"
        assert locked.get("/v1/review/photos/0").code == 401
        assert locked.get("/v1/review/photos/0", Authorization=f"Bearer {TOKEN}").code == 200
        assert locked.post("/v1/review/undo", Origin="https://elsewhere.example").code == 403
        assert "script-src 'self'" in locked.get("/").headers["content-security-policy"]


def test_what_cannot_be_exported_is_said(client: Client) -> None:
    assert client.post_json("/v1/review/export", {"what": "everything"}).code == 422
    client.post_json("/v1/review/answers", {"row": 0, "yes": ["dog"]})
    said = client.post_json("/v1/review/export", {"what": "keywords"}).json["message"]
    assert "1 photos" in said
