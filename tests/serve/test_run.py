"""`tagloom serve` as a process: how it starts, and how it ends."""

import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path

import pytest
from serving import Client

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-u", "-m", "tagloom", "serve"]


@contextmanager
def started(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], Client, str]]:
    """Start the command; gives the process, a client, and the line that it printed."""
    command = [*COMMAND, *map(str, arguments), "--port", "0", "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"at http://[\w.]+:(\d+)/", line)
        assert found, line + (process.stderr.read() if process.stderr and not line else "")
        yield process, Client(int(found[1])), line
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def refused(*arguments: object) -> str:
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    return done.stderr


def test_sigterm_finishes_what_was_begun_and_takes_nothing_new(untrained_run, jpeg):
    with started(untrained_run) as (process, client, line):
        assert line.startswith("Tagging with untrained at ")
        assert client.get("/readyz").json == {"status": "ready"}
        slow = socket.create_connection(("127.0.0.1", client.port), timeout=20)
        head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nContent-Length: {len(jpeg)}\r\n\r\n"
        slow.sendall(head.encode() + jpeg[:100])
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        time.sleep(1)
        with pytest.raises(OSError, match="refused"):
            client.get("/readyz")
        slow.sendall(jpeg[100:])
        assert slow.recv(100).startswith(b"HTTP/1.1 200 "), "who was sending is answered"
        slow.close()
        assert process.wait(20) == -signal.SIGTERM


def test_ctrl_c_ends_it_without_a_traceback(untrained_run):
    with started(untrained_run) as (process, _, _):
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 130
        assert "Traceback" not in errors


def test_another_address_than_loopback_needs_a_token(untrained_run):
    assert "--token" in refused(untrained_run, "--host", "0.0.0.0")  # noqa: S104
    token = "0123456789abcdef"
    with started(untrained_run, "--host", "0.0.0.0", "--token", token) as (_, client, _):  # noqa: S104
        assert client.get("/v1/models").code == 401
        assert client.get("/v1/models", Host="photos.example", Authorization=f"Bearer {token}").code == 200


def test_a_port_in_use_and_a_folder_without_a_tagger_are_explained(untrained_run, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}: cannot be listened on" in refused(untrained_run, "--port", port)
    assert "tagger.json" in refused(tmp_path, "--port", 0)


def test_without_the_extra_the_install_is_named():
    script = (
        "import sys; sys.modules['fastapi'] = None\n"
        "from tagloom.cli import main; sys.argv = ['tagloom', 'serve']; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'tagloom[serve]'" in done.stderr


def test_the_examples_of_the_page_about_serving_work(untrained_run, jpeg, tmp_path):
    """Every curl line of docs/serving.md, typed in a shell against a real server."""
    text = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8").replace("\\\n", " ")
    commands = re.findall(r"^(curl .*)$", text, flags=re.MULTILINE)
    assert len(commands) >= 8
    for name in ("photo.jpg", "a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(jpeg)
    run = tmp_path / "ready"
    run.symlink_to(untrained_run)
    with started(run, "--label-studio-files", tmp_path) as (_, client, _):
        for command in commands:
            here = command.replace("http://127.0.0.1:8700", client.url)
            typed = here.replace("curl ", "curl -sS --fail-with-body ", 1)
            done = subprocess.run(typed, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S602
            assert done.returncode == 0, f"{typed}\n{done.stdout}{done.stderr}"


def test_a_short_load_of_many_clients_gets_nothing_but_answers(untrained_run, tmp_path, jpegs, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "bench")
    spec = util.spec_from_file_location("serve_load", ROOT / "bench" / "serve_load.py")
    bench = util.module_from_spec(spec)
    sys.modules["serve_load"] = bench  # its dataclasses look themselves up
    spec.loader.exec_module(bench)
    for number, data in enumerate(jpegs):
        (tmp_path / f"{number}.jpg").write_bytes(data)
    found = bench.measure(str(untrained_run), sorted(tmp_path.iterdir()), clients=64, seconds=2, parts=1)
    assert set(found["codes"]) == {"200"}
    assert found["requests"] >= 64
    assert found["server ended with"] == -signal.SIGTERM
    assert threading.active_count() < 50
