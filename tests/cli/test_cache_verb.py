"""`tagloom cache` shows and clears."""

import os
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tagloom.cache_folder import write_meta
from tagloom.cli import app
from tagloom.errors import TagloomError

KEY = "0123456789abcdef" * 2


def tagloom(*arguments: object):
    return CliRunner().invoke(app, ["cache", *map(str, arguments)], env={"COLUMNS": "120"})


@pytest.fixture
def root(tmp_path: Path, monkeypatch) -> Path:
    """A cache with features that were used three days ago and an exported network that was used today."""
    monkeypatch.setenv("TAGLOOM_CACHE", str(tmp_path))
    folder = tmp_path / "features" / KEY
    folder.mkdir(parents=True)
    write_meta(folder / "meta.json", {"backbone": "vit[/]\x1b", "size": 224})
    (folder / f"{KEY}-0123abcd.safetensors").write_bytes(bytes(5_000_000))
    os.utime(folder, (0, time.time() - 3.5 * 24 * 3600))
    (tmp_path / "extractors").mkdir()
    (tmp_path / "extractors" / f"{KEY}-0123abcd.onnx").write_bytes(bytes(300))
    return tmp_path


def count(root: Path) -> int:
    return sum(path.is_file() for path in root.rglob("*"))


def test_sizes_are_shown_by_kind(root):
    done = tagloom()
    assert done.exit_code == 0, done.output
    assert "vit[/]\N{REPLACEMENT CHARACTER} at 224 px" in done.output
    for text in ("Cache: 5.0 MB", "5.0 MB", "3 days ago", "today", "300 B", str(root)):
        assert text in done.output.replace("\n", "")
    assert count(root) == 3


def test_an_empty_cache_says_so(tmp_path):
    done = tagloom("--cache", tmp_path)
    assert done.exit_code == 0
    assert "holds no cached files" in done.output


def test_a_dry_run_removes_nothing(root):
    done = tagloom("clear", "--dry-run")
    assert "5.0 MB would be removed" in done.output
    assert count(root) == 3


@pytest.mark.parametrize(
    ("options", "left"),
    [((), 0), (("--kind", "features"), 1), (("--kind", "words"), 3), (("--keep-days", 3), 1), (("--keep-days", 4), 3)],
)
def test_what_was_chosen_is_removed(root, options, left):
    done = tagloom("clear", *options)
    assert done.exit_code == 0, done.output
    assert count(root) == left
    assert "removed" in done.output


def test_another_folder_can_be_named_before_or_after_the_verb(root, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    tagloom("--cache", other, "clear")
    tagloom("clear", "--cache", other)
    assert count(root) == 3


def test_an_unknown_kind_is_refused_with_the_known_ones(root):
    done = tagloom("clear", "--kind", "feature")
    assert isinstance(done.exception, TagloomError)
    assert "did you mean 'features'? Known: extractors, features, words" in str(done.exception)
    assert count(root) == 3


def test_help_says_what_is_safe():
    assert "Runs that are using the cache go on" in tagloom("clear", "--help").output.replace("\n", " ")
