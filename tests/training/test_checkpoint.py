"""A checkpoint is whole or is the one before, belongs to its own run, and cannot run code."""

import errno
import os

import pytest
import torch

from tagloom.training.checkpoint import CHECKPOINT_FOLDER, NEWEST_FILE, CheckpointError, CheckpointStore, best_file

STATE = {
    "module": {"weight": torch.arange(3.0)},
    "position": {"epoch": 2, "best": float("-inf"), "history": [{"a": 1.0}]},
}


@pytest.fixture
def store(tmp_path) -> CheckpointStore:
    return CheckpointStore(tmp_path, "this run")


def test_a_run_without_a_checkpoint_begins(store):
    assert store.load() is None
    assert store.load_images() is None
    with pytest.raises(CheckpointError, match=r"best-1\.pt: the weights of the best epoch are missing"):
        store.load_best(0)


def test_what_was_saved_comes_back(store):
    store.save(STATE)
    found = store.load()
    assert torch.equal(found["module"]["weight"], STATE["module"]["weight"])
    assert found["position"] == STATE["position"]


def test_best_weights_are_kept_apart(store):
    store.save(STATE)
    store.save_best(3, {"weight": torch.ones(2)})
    assert torch.equal(store.load_best(3)["weight"], torch.ones(2))
    assert "module" in store.load()


def test_the_best_weights_that_the_checkpoint_names_stay_until_another_names_others(store):
    store.save_best(1, {"weight": torch.ones(2)})
    store.save(STATE)
    store.save_best(4, {"weight": torch.zeros(2)})  # killed now, the checkpoint still names epoch 1
    assert torch.equal(store.load_best(1)["weight"], torch.ones(2))
    store.drop_bests_but(4)
    assert torch.equal(store.load_best(4)["weight"], torch.zeros(2))
    with pytest.raises(CheckpointError, match="are missing"):
        store.load_best(1)


def test_best_weights_of_another_run_or_another_epoch_are_refused(store, tmp_path):
    store.save_best(1, {"weight": torch.ones(2)})
    with pytest.raises(CheckpointError, match="belongs to a run with another recipe"):
        CheckpointStore(tmp_path, "that run").load_best(1)
    (store.folder / best_file(1)).rename(store.folder / best_file(2))
    with pytest.raises(CheckpointError, match="are missing"):
        store.load_best(2)


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


def test_one_changed_byte_anywhere_is_found(store):
    store.save(STATE)
    path = store.folder / NEWEST_FILE
    whole = path.read_bytes()
    for position in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="cannot be read"):
            store.load()
    for length in range(0, len(whole), 101):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="cannot be read"):
            store.load()
    path.write_bytes(whole)
    assert store.load()["position"] == STATE["position"]


def test_a_file_that_is_no_checkpoint_is_refused(store):
    store.save(STATE)
    torch.save([1, 2], store.folder / NEWEST_FILE)
    with pytest.raises(CheckpointError, match="another version of Tagloom, or is no checkpoint"):
        store.load()


def test_a_checkpoint_that_would_run_code_is_refused_and_runs_nothing(store, tmp_path):
    class Malicious:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "trace"),)

    store.save({"module": Malicious()})
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
    store.save_best(0, {})
    (store.folder / f"{best_file(0)}.partial").write_bytes(b"half")
    store.remove()
    assert not (tmp_path / CHECKPOINT_FOLDER).exists()
    store.remove()
