"""What the command says about several processes, without starting any."""

import pytest
from typer.testing import CliRunner

from tagloom.cli import app, run
from tagloom.cli.processes import ManyProcesses
from tagloom.errors import TagloomError


@pytest.fixture
def launched(monkeypatch):
    """Be the second of two processes that torchrun started."""
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)


def test_processes_are_asked_for_before_any_work():
    with pytest.raises(ManyProcesses) as asked:
        CliRunner().invoke(app, ["train", "nothing.csv", "--processes", "3"], catch_exceptions=False)
    assert asked.value.count == 3


@pytest.mark.parametrize("words", [["distill", "train.csv"], ["check", "train.csv"], ["demo"]])
def test_other_verbs_refuse_torchrun(words, launched, capsys):
    assert run(words) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"process 1: error: tagloom {words[0]} runs in one process")
    assert "train, predict" in said


def test_several_processes_tag_into_a_file(launched, capsys):
    assert run(["predict", "photo.jpg"]) == 2
    assert "Name it with --out or --scores" in capsys.readouterr().err


def test_several_processes_train_into_a_folder_that_is_named(launched):
    from tagloom.api.planning import run_folder

    with pytest.raises(TagloomError, match="name its folder with --out"), run_folder(None, "runs/x", resume=False):
        pass
