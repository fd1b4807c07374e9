"""The folder of a run: its default name, two runs at once, and what killed runs leave."""

import threading
from pathlib import Path

import pytest
import torch

import tagloom
from tagloom.api.planning import run_folder
from tagloom.errors import TagloomError
from tagloom.files import PARTIAL_SUFFIX
from tagloom.training.checkpoint import CheckpointStore
from tagloom.training.folder import disk_errors, open_folder
from tagloom.training.lock import LockedError, locked
from tagloom.training.loop import _Loop
from tagloom.training.signals import Interrupted


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def begin(folder: Path) -> None:
    (folder / "run.json").write_text("{}")


def test_runs_without_a_name_get_the_next_free_one(here):
    for name in ("runs/tagger", "runs/tagger-2", "runs/tagger-3"):
        with run_folder(None, "runs/tagger", resume=False) as folder:
            assert folder == Path(name)
            begin(folder)


def test_a_folder_that_nothing_was_written_to_is_removed(here):
    for _ in range(2):
        with pytest.raises(TagloomError), run_folder(None, "runs/tagger", resume=False) as folder:
            raise TagloomError("refused")
        assert not folder.exists()


def test_two_runs_that_start_together_get_two_folders(here):
    found, ready = [], threading.Barrier(8)

    def start():
        ready.wait()
        with run_folder(None, "runs/tagger", resume=False) as folder:
            begin(folder)
            found.append(folder)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 8


def test_a_run_without_a_name_is_resumed_if_it_is_the_only_one_that_was_stopped(here):
    for name in ("tagger", "tagger-2", "tagger-3"):
        (here / "runs" / name).mkdir(parents=True)
        begin(here / "runs" / name)
    (here / "runs" / "tagger" / "tagger.json").write_text("{}")
    with pytest.raises(TagloomError, match=r"several runs were stopped: runs/tagger-2, runs/tagger-3\. Say which"):
        run_folder(None, "runs/tagger", resume=True).__enter__()
    (here / "runs" / "tagger-3" / "tagger.json").write_text("{}")
    with run_folder(None, "runs/tagger", resume=True) as folder:
        assert folder == Path("runs/tagger-2")


def test_a_run_that_is_stopped_says_where_it_is(here):
    with pytest.raises(Interrupted) as caught, run_folder(None, "runs/tagger", resume=False):
        raise Interrupted(15)
    assert caught.value.folder == Path("runs/tagger")


def test_a_second_run_in_a_folder_is_refused_from_the_start_to_the_end_of_the_first(
    small_photos, feature_cache, tmp_path, monkeypatch
):
    refused = []
    real = _Loop._take_step
    settings = {"preprocess.size": 32, "backbone.name": "test_efficientnet", "backbone.weights": "none"}
    choices = {"epochs": 1, "settings": settings, "cache": feature_cache, "device": "cpu", "show_progress": False}

    def second(loop, batches):
        if not refused:  # before the first checkpoint
            with pytest.raises(LockedError, match=r"run: another run is working here \(in this process") as caught:
                tagloom.train(small_photos / "train.csv", out=tmp_path / "run", **choices)
            refused.append(caught.value)
        real(loop, batches)

    monkeypatch.setattr(_Loop, "_take_step", second)
    tagloom.train(small_photos / "train.csv", out=tmp_path / "run", **choices)
    assert refused
    assert not (tmp_path / "run" / "run.lock").exists()
    with pytest.raises(TagloomError, match="holds a finished tagger"):
        tagloom.train(small_photos / "train.csv", out=tmp_path / "run", **choices)


def test_what_killed_runs_left_is_removed_before_another_begins(tmp_path):
    checkpoint = tmp_path / "checkpoint"
    for resume in (False, True):
        checkpoint.mkdir()
        left = [tmp_path / f"run.json.{'0' * 32}{PARTIAL_SUFFIX}", checkpoint / f"last.pt.{'0' * 32}{PARTIAL_SUFFIX}"]
        for path in left:
            path.write_text("half")
        (checkpoint / "best-2.pt").write_text("of a run that has no checkpoint")
        with open_folder(tmp_path, resume=resume):
            assert not any(path.exists() for path in left)
            assert (checkpoint / "best-2.pt").exists() == resume
    with locked(tmp_path), pytest.raises(LockedError), open_folder(tmp_path, resume=False):
        pass


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError(30, "Read-only", "a.txt")])
def test_errors_of_the_disk_become_ours_and_others_stay(tmp_path, error):
    with (
        pytest.raises(TagloomError, match=r"cannot be written or read.*untouched.*--resume --out"),
        disk_errors(tmp_path),
    ):
        raise error
    with pytest.raises(ConnectionError), disk_errors(tmp_path):
        raise ConnectionError(104, "reset")


def test_a_run_that_was_stopped_in_its_first_round_is_not_started_over(tmp_path):
    run = CheckpointStore(tmp_path, "a run")
    CheckpointStore(run.folder, "a run").save({"step": torch.tensor(1)})  # as `after_first_round` keeps it
    with pytest.raises(TagloomError, match="--resume"), open_folder(tmp_path, resume=False):
        pass
    assert CheckpointStore(run.folder, "a run").load() is not None
