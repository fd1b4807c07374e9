"""A tagger that was trained here runs in the environment that `pip install tagloom` makes, which has no torch."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tagloom.predict.tagger import load

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def core_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of the small install: that of `make test`, or one made for this run."""
    ready = ROOT / ".venv-core"
    if not (ready / ".ready").exists():
        ready = tmp_path_factory.mktemp("core") / "venv"
        subprocess.run([sys.executable, "-m", "venv", ready], check=True)
        subprocess.run([ready / "bin" / "python", "-m", "pip", "install", "--quiet", ROOT], check=True)
    return ready / "bin" / "python"


def test_a_tagger_predicts_the_same_without_torch(core_python, finished_run, scenes, tmp_path):
    picture = sorted((scenes / "images").iterdir())[0]
    script = (
        "import importlib.util, json, sys, tagloom; assert importlib.util.find_spec('torch') is None; "
        "tagger = tagloom.load(sys.argv[1]); print(json.dumps(tagger.scores(sys.argv[2]).tolist()))"
    )
    done = subprocess.run(
        [core_python, "-c", script, finished_run, picture], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    np.testing.assert_allclose(json.loads(done.stdout), load(finished_run).scores(picture), atol=1e-5)


def test_the_command_evaluates_without_torch(core_python, finished_run, scenes, tmp_path):
    command = [
        core_python.parent / "tagloom",
        "evaluate",
        finished_run,
        scenes / "test.csv",
        "--json",
        tmp_path / "m.json",
    ]
    subprocess.run(command, capture_output=True, check=True, cwd=tmp_path)
    assert 0 < json.loads((tmp_path / "m.json").read_text())["mAP"] <= 100
