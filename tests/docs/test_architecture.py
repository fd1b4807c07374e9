"""docs/architecture.md describes the code as it is: its tree, and its two walks."""

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from typer.testing import CliRunner

from tagloom.errors import TaggerError

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tagloom"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def walk_of(title: str) -> list[str]:
    """Give the files of a walk's table, in order."""
    table = PAGE.partition(f"**{title}")[2].partition("\n\n")[2].partition("\n\n")[0]
    return re.findall(r"^\| \d+ \| `([\w/]+\.py)`", table, flags=re.MULTILINE)


def files_entered(work: Callable[[], Any]) -> list[str]:
    """List the files of Tagloom whose functions are called, in the order of the calls."""
    entered: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        # What only makes an object, or a module, is no stop: nothing passes through it yet.
        name = frame.f_code.co_name
        passes = not name.startswith("<") and name not in ("__init__", "__post_init__")
        if event == "call" and path.is_relative_to(SOURCE) and passes:
            entered.append(str(path.relative_to(SOURCE)))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return entered


def check_walk(listed: list[str], entered: list[str]) -> None:
    """Refuse a walk whose stops do not follow each other in the calls, or that enters a file more than twice."""
    calls = iter(entered)
    for stop in listed:
        assert stop in calls, f"{stop} is not entered after the stops before it"  # moves on to where it stands
    assert all(listed.count(file) <= 2 for file in listed)


def test_a_photograph_goes_through_predict_as_the_page_says(untrained_run, scenes):
    from tagloom.cli import app

    picture = sorted((scenes / "images").iterdir())[0]
    command = ["predict", str(untrained_run), str(picture)]
    done = [CliRunner().invoke(app, command)]  # once before, so that what imports run is no stop of the walk
    entered = files_entered(lambda: done.append(CliRunner().invoke(app, command)))
    assert done[1].exit_code == 0, done[1].output
    listed = walk_of("A photograph through")
    assert 10 <= len(listed) <= 12
    check_walk(listed, entered)


def test_a_row_goes_through_train_as_the_page_says(scenes, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    from tagloom.cli import app
    from tagloom.training import finish, run  # noqa: F401, imported before the tracer looks
    from tagloom.training.features import exported

    def refuse(*given: object, **options: object) -> float:
        raise TaggerError("an export takes minutes under a tracer")

    monkeypatch.setattr(finish, "export_network", refuse)
    monkeypatch.setattr(exported, "export_onnx", refuse)

    small = ["backbone.name=test_efficientnet", "backbone.weights=none", "preprocess.size=32", "training.epochs=1"]
    command = ["train", str(scenes / "train.csv"), "--recipe", "quick-gap", "--out", str(tmp_path / "run")]
    command += [
        "--device",
        "cpu",
        "--cache",
        str(tmp_path / "cache"),
        *(part for name in small for part in ("--set", name)),
    ]
    done: list[Any] = []
    entered = files_entered(lambda: done.append(CliRunner().invoke(app, command)))
    assert done[0].exit_code == 0, done[0].output
    listed = walk_of("A row of the table through")
    assert listed.count("training/run.py") == 1
    check_walk(listed, entered)


def test_the_tree_names_every_package_and_nothing_else():
    tree = PAGE.partition("```\nsrc/tagloom/\n")[2].partition("bench/")[0]
    named = set(re.findall(r"^  (\w+)/ ", tree, flags=re.MULTILINE))
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert named == packages


def test_every_file_that_the_page_names_exists():
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE))
    missing = [name for name in named if not (SOURCE / name).exists() and not (ROOT / name).exists()]
    assert not [name for name in missing if not (SOURCE / "models" / name).exists()], missing
