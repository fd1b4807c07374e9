"""Promise: a checkpoint and a tagger folder are whole or absent, and the last good one is kept."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tagloom.errors import TagloomError
from tagloom.files import remove_partial_files
from tagloom.models.network import load_network
from tagloom.recipe import recipe_from_dict
from tagloom.tagger.spec import read_spec
from tagloom.training.checkpoint import CheckpointStore
from tagloom.training.plan import RunPlan
from tagloom.training.run import train

FROZEN = {
    "data": {"holdout": 0.1},
    "preprocess": {"size": 32},
    "backbone": {"name": "test_efficientnet", "weights": "none"},
    "training": {"epochs": 4, "batch_size": 8, "checkpoint_minutes": 0, "select": "last"},
}
MIB = 1 << 20


@pytest.mark.fuzz
def test_a_checkpoint_that_is_killed_while_it_is_written_is_the_one_before(ask_server, tmp_path, fuzz_rounds):
    rng, noted = np.random.default_rng(), tmp_path / "noted"
    store = CheckpointStore(tmp_path, "this run")
    left = 0
    for number in range(fuzz_rounds(50)):
        seconds = float(rng.uniform(0, 0.05))
        found = ask_server("save", out=tmp_path, noted=noted, values=MIB, kill_seconds=seconds)
        assert found["code"] == -9
        complete = int(noted.read_text().split()[-1])
        left += len(list(store.folder.glob("*.partial")))
        state = store.load()
        assert state is not None
        assert state["number"] in (complete, complete + 1), f"round {number}"
        assert torch.equal(state["weights"], torch.full((MIB,), float(state["number"])))
        remove_partial_files(store.folder)
        assert [path.name for path in store.folder.iterdir()] == ["last.pt"]
    print(f"{left} killed in the middle of a file")


@pytest.mark.fuzz
def test_a_tagger_folder_that_is_killed_while_it_is_written_loads_or_is_not_finished(
    ask_server, untrained_run, tmp_path, fuzz_rounds
):
    rng, noted = np.random.default_rng(), tmp_path / "noted"
    taggers = tmp_path / "taggers"
    taggers.mkdir()
    expected = load_file(untrained_run / "model.safetensors")
    unfinished = 0
    for number in range(fuzz_rounds(50)):
        seconds = float(rng.uniform(0, 0.05))
        found = ask_server("folder", source=untrained_run, out=taggers, noted=noted, kill_seconds=seconds)
        assert found["code"] == -9
        for folder in taggers.iterdir():
            try:
                spec = read_spec(folder)
            except TagloomError as error:
                assert "is not a finished tagger" in str(error), f"round {number}"
                unfinished += 1
                continue
            found_weights = load_network(folder, spec).state_dict()
            assert all(torch.equal(value, found_weights[name]) for name, value in expected.items())
            assert (folder / "README.md").read_text().strip()
        shutil.rmtree(taggers)
        taggers.mkdir()
    print(f"{unfinished} killed before they were finished")


def limits(ask, folder: Path, photos: Path, out: Path):
    """Train in a child; gives what happened."""

    def start(**choices):
        return ask("train", data=photos / "train.csv", recipe=FROZEN, cache=folder / "cache", out=out, **choices)

    return start


def test_files_that_may_not_grow_give_our_error_and_the_last_checkpoint_continues(ask_server, small_photos, tmp_path):
    start = limits(ask_server, tmp_path, small_photos, tmp_path / "whole")
    assert start(resume=False, orders=tmp_path / "orders") == {"code": 0, "error": None}
    start = limits(ask_server, tmp_path, small_photos, tmp_path / "run")
    assert start(resume=False, kill_step=7)["code"] == -9
    newest = tmp_path / "run" / "checkpoint" / "last.pt"
    before = newest.read_bytes()
    for file_bytes, named in ((len(before) - 100, "last.pt"), (300, "run.json")):  # and in the other a log of 300 bytes
        told = start(resume=True, file_bytes=file_bytes)["error"]
        assert named in told
        assert "untouched" in told
        assert "--resume" in told
        assert newest.read_bytes() == before
    assert start(resume=True) == {"code": 0, "error": None}
    ours, theirs = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "whole"))
    assert ours == theirs


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 400 KiB, where the system lets us mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a disk is not permitted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def plan_of(photos: Path) -> RunPlan:
    return RunPlan(str(photos / "train.csv"), None, recipe_from_dict(FROZEN), export=False)


def test_a_disk_that_is_full_gives_our_error_and_the_run_continues_when_there_is_room(
    small_disk, small_photos, tmp_path
):
    out, filler = small_disk / "run", small_disk / "filler"
    filled = 0
    for kept in (0, 8, 16, 40, 100):  # KiB that are left: each lets the run get further
        with filler.open("wb") as file:
            try:
                while file.write(bytes(1024)):
                    file.flush()
            except OSError:
                pass
        size = (filler.stat().st_size // 4096 - kept // 4) * 4096
        with filler.open("r+b") as file:
            file.truncate(max(size, 0))
        try:
            train(plan_of(small_photos), out, resume=(out / "run.json").exists(), cache_folder=tmp_path / "cache")
        except TagloomError as error:
            filled += 1
            assert "No space left" in str(error), error
            assert "--resume" in str(error) or "another --out" in str(error)
            assert not (out / "tagger.json").exists()
            assert not list(small_disk.rglob("*.partial"))
    assert filled >= 2
    filler.unlink()
    if not (out / "tagger.json").exists():
        train(plan_of(small_photos), out, resume=(out / "run.json").exists(), cache_folder=tmp_path / "cache")
    train(plan_of(small_photos), tmp_path / "whole", cache_folder=tmp_path / "cache")
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()


def test_a_disk_that_is_read_only_gives_our_error(small_disk, small_photos, tmp_path):
    (small_disk / "run").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for out, said in ((small_disk / "run", "cannot be written"), (small_disk / "new", "cannot be created")):
        with pytest.raises(TagloomError, match=said) as caught:
            train(plan_of(small_photos), out, cache_folder=tmp_path / "cache")
        assert "Read-only file system" in str(caught.value)
