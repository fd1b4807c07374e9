"""Ranks: real processes, forked by one that has imported everything."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Ranks = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def in_ranks() -> Iterator[Ranks]:
    """Do a job of `rank_jobs.py` in some processes; gives the result of each rank, or its error."""
    pytest.importorskip("torch")
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("rank_jobs.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    )
    assert server.stdin is not None
    assert server.stdout is not None

    def ask(job: str, ranks: int, folder: Path, **given: Any) -> list[dict[str, Any]]:
        folder.mkdir(exist_ok=True)
        request = {"job": job, "ranks": ranks, "folder": folder, **given}
        server.stdin.write(json.dumps(request, default=str) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        assert answer, "the process that forks ranks has died"
        found: list[dict[str, Any]] = json.loads(answer)
        assert not [rank["message"] for rank in found if rank.get("error") == "NOT OURS"], found
        return found

    yield ask
    server.stdin.close()
    server.wait(timeout=60)
