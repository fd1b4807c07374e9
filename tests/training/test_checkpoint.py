"""A checkpoint is whole or is the one before, belongs to its own run, and cannot run code."""

import errno
import os

import pytest
import torch

from tagloom.training.checkpoint import BEST_FILE, CHECKPOINT_FOLDER, NEWEST_FILE, CheckpointError, CheckpointStore

STATE = {
    "module": {"weight": torch.arange(3.0)},
    "position": {"epoch": 2, "best": float("-inf"), "history": [{"a": 1.0}]},
}


@pytest.fixture
def store(tmp_path) -> CheckpointStore:
    return CheckpointStore(tmp_path, "this run")


def test_a_run_without_a_checkpoint_begins(store):
    assert store.load() is None
    assert store.load_best() is None


def test_what_was_saved_comes_back(store):
    store.save(STATE)
    found = store.load()
    assert torch.equal(found["module"]["weight"], STATE["module"]["weight"])
    assert found["position"] == STATE["position"]


def test_best_weights_are_kept_apart(store):
    store.save(STATE)
    store.save_best({"weight": torch.ones(2)})
    assert torch.equal(store.load_best()["weight"], torch.ones(2))
    assert "module" in store.load()


def test_a_checkpoint_of_another_run_is_refused(store, tmp_path):
    store.save(STATE)
    with pytest.raises(CheckpointError, match=r"another recipe, other data or another seed.*another --out"):
        CheckpointStore(tmp_path, "that run").load()


@pytest.mark.parametrize("content", [b"", b"no checkpoint", None])
def test_a_damaged_checkpoint_is_refused_with_its_name(store, content):
    store.save(STATE)
    path = store.folder / NEWEST_FILE
    path.write_bytes(path.read_bytes()[:200] if content is None else content)
    with pytest.raises(CheckpointError, match=rf"{NEWEST_FILE}: cannot be read.*Delete its folder"):
        store.load()


def test_a_file_that_is_no_checkpoint_is_refused(store):
    store.save(STATE)
    torch.save([1, 2], store.folder / NEWEST_FILE)
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        store.load()


def test_a_checkpoint_that_would_run_code_is_refused_and_runs_nothing(store, tmp_path):
    class Malicious:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "trace"),)

    store.save(STATE)
    torch.save({"identity": "this run", "module": Malicious()}, store.folder / NEWEST_FILE)
    with pytest.raises(CheckpointError, match="cannot be read"):
        store.load()
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("write failed")])
def test_a_full_disk_says_so_and_keeps_the_checkpoint_before(store, monkeypatch, error):
    store.save(STATE)

    def full(content, file):
        file.write(b"half")
        raise error

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(CheckpointError, match=r"could not be written.*before it is untouched.*--resume"):
        store.save({"module": {}})
    monkeypatch.undo()
    assert [path.name for path in store.folder.iterdir()] == [NEWEST_FILE]
    assert store.load()["position"]["epoch"] == 2


def test_a_writer_that_was_killed_leaves_the_checkpoint_before(store):
    store.save(STATE)
    (store.folder / f"{NEWEST_FILE}.partial").write_bytes(b"half")
    assert store.load()["position"]["epoch"] == 2
    store.save(STATE | {"position": {"epoch": 3}})
    assert store.load()["position"]["epoch"] == 3


def test_a_finished_run_leaves_no_checkpoint(store, tmp_path):
    store.save(STATE)
    store.save_best({})
    (store.folder / f"{BEST_FILE}.partial").write_bytes(b"half")
    store.remove()
    assert not (tmp_path / CHECKPOINT_FOLDER).exists()
    store.remove()
