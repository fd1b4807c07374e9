"""What the promises about runs share: a process that forks runs, and a few small images."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def ask_server() -> Iterator[Ask]:
    """Ask a process that has imported everything to fork a child for a job; gives the child's error and exit code."""
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("run_server.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )

    def ask(kind: str, **job: Any) -> dict[str, Any]:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps({"kind": kind, **job}, default=str) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        assert answer, "the server of runs has died"
        found: dict[str, Any] = json.loads(answer)
        assert not (found["error"] or "").startswith("NOT OURS"), found["error"]
        return found

    yield ask
    assert server.stdin is not None
    server.stdin.close()
    server.wait(timeout=60)


@pytest.fixture(scope="session")
def small_photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty images of 32 x 32 with three labels, in a folder with train.csv. Copy it before changing it."""
    folder = tmp_path_factory.mktemp("small") / "photos"
    folder.mkdir()
    rng, rows = np.random.default_rng(0), ["image,labels"]
    for number in range(40):
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(folder / f"{number}.png")
        rows.append(f"{number}.png,{'|'.join(name for name in 'abc' if rng.random() < 0.5) or 'a'}")
    (folder / "train.csv").write_text("\n".join(rows) + "\n")
    return folder
