"""Who may ask: tokens, names of the server, and pages of other sites."""

import base64

import pytest
from serving import Client, serving

from tagloom.errors import TagloomError
from tagloom.serve.guard import Access, is_loopback

TOKEN = "a-token-of-the-tests"


@pytest.fixture(scope="module")
def locked(tiny):
    access = Access(token=TOKEN, origins=("https://friend.example",))
    with serving({"tiny": tiny}, access=access) as client:
        yield client


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "tagger.example"])  # noqa: S104
def test_an_address_that_others_reach_needs_a_token(host):
    assert not is_loopback(host)
    with pytest.raises(TagloomError, match="--token"):
        Access(host)
    Access(host, TOKEN)


@pytest.mark.parametrize("token", ["short", "", "has spaces in it, sadly", "nön-ascii-nön-ascii"])
def test_a_token_that_can_be_guessed_or_not_be_sent_is_refused(token):
    with pytest.raises(TagloomError, match="at least 16"):
        Access(token=token)


@pytest.mark.parametrize("origin", ["friend.example", "https://friend.example/", "*", "https://friend.example/page"])
def test_an_origin_is_written_as_browsers_send_it(origin):
    with pytest.raises(TagloomError, match="--cors"):
        Access(origins=(origin,))


def test_without_its_token_nothing_but_health_and_the_page_is_answered(locked: Client, jpeg):
    for path in ("/v1/models", "/metrics", "/v2/models/tiny", "/v1/openapi.json", "/made-up"):
        answer = locked.get(path)
        assert (answer.code, answer.headers["www-authenticate"][:6]) == (401, "Bearer")
    for path in ("/v1/predict", "/v1/explain", "/v2/models/tiny/infer", "/predict", "/setup"):
        assert locked.post(path, jpeg).code == 401
    for path in ("/healthz", "/readyz", "/health", "/v2/health/live", "/v2/health/ready", "/", "/static/app.js"):
        assert locked.get(path).code == 200


@pytest.mark.parametrize("wrong", ["", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", f"Token {TOKEN}", "Basic ???"])
def test_a_wrong_token_is_refused(locked: Client, wrong):
    assert locked.get("/v1/models", Authorization=wrong).code == 401


def test_the_right_token_is_taken_as_bearer_and_as_the_password_of_label_studio(locked: Client):
    basic = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
    for right in (f"Bearer {TOKEN}", f"bearer {TOKEN}", f"Basic {basic}"):
        assert locked.get("/v1/models", Authorization=right).code == 200


def test_a_name_that_points_to_this_machine_by_rebinding_is_refused(client: Client, jpeg):
    for host in ("evil.example", f"evil.example:{client.port}", "127.0.0.1.evil.example", ""):
        assert client.get("/v1/models", Host=host).code == 421
        assert client.post("/v1/predict", jpeg, Host=host).code == 421
    for host in (f"127.0.0.1:{client.port}", f"localhost:{client.port}", "LOCALHOST", f"[::1]:{client.port}"):
        assert client.get("/v1/models", Host=host).code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_pages_of_other_sites_cannot_post(client: Client, jpeg, headers):
    for path in ("/v1/predict", "/v1/explain", "/predict", "/v2/models/tiny/infer"):
        assert client.post(path, jpeg, **headers).code == 403


def test_the_own_page_can_post(client: Client, jpeg):
    own = {"Origin": client.url, "Sec_Fetch_Site": "same-origin"}
    assert client.post("/v1/predict", jpeg, **own).code == 200


def test_there_is_no_cors_unless_asked(client: Client):
    answer = client.ask(
        "OPTIONS", "/v1/predict", None, {"Origin": "https://friend.example", "Access-Control-Request-Method": "POST"}
    )
    assert "access-control-allow-origin" not in answer.headers
    assert "access-control-allow-origin" not in client.get("/v1/models", Origin="https://friend.example").headers


def test_the_origin_that_was_asked_for_gets_cors_and_no_other(locked: Client, jpeg):
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    answer = locked.ask("OPTIONS", "/v1/predict", None, asked | {"Origin": "https://friend.example"})
    assert (answer.code, answer.headers["access-control-allow-origin"]) == (200, "https://friend.example")
    other = locked.ask("OPTIONS", "/v1/predict", None, asked | {"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers
    right = {"Authorization": f"Bearer {TOKEN}", "Origin": "https://friend.example"}
    assert locked.post("/v1/predict", jpeg, **right).headers["access-control-allow-origin"] == "https://friend.example"


def test_every_answer_has_the_strict_policy_and_the_page_keeps_to_it(client: Client):
    for path in ("/", "/static/app.js", "/v1/models", "/made-up"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert not any(word in policy for word in ("unsafe", "http:", "https:", "*"))
        assert headers["x-content-type-options"] == "nosniff"
    page = client.get("/").body.decode()
    assert not any(mark in page for mark in ("<style", " style=", "onclick", "http://", "https://", "javascript:"))


def test_no_path_leads_out_of_the_page(client: Client):
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/", "/../pyproject.toml"):
        assert client.get(path).code == 404


def test_no_request_can_name_a_picture_by_address(client: Client):
    assert client.post("/v1/predict?url=http://127.0.0.1/a.jpg", b"http://127.0.0.1/a.jpg").code == 415
