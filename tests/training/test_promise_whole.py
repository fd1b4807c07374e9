"""Promise: a checkpoint and a tagger folder are whole or absent, and the last good one is kept."""

import os
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
            refused = error_of(lambda folder=folder: read_spec(folder))
            if refused is not None:
                assert "is not a finished tagger" in refused, f"round {number}"
                unfinished += 1
                continue
            found_weights = load_network(folder, read_spec(folder)).state_dict()
            assert all(torch.equal(value, found_weights[name]) for name, value in expected.items())
            assert (folder / "README.md").read_text().strip()
        shutil.rmtree(taggers)
        taggers.mkdir()
    print(f"{unfinished} killed before they were finished")


def limits(ask, cache: Path, photos: Path, out: Path):
    """Train in a child; gives what happened."""

    def start(**choices):
        return ask("train", data=photos / "train.csv", recipe=FROZEN, cache=cache, out=out, **choices)

    return start


def test_files_that_may_not_grow_give_our_error_and_the_last_checkpoint_continues(
    ask_server, small_photos, feature_cache, tmp_path
):
    start = limits(ask_server, feature_cache, small_photos, tmp_path / "whole")
    assert start(resume=False, orders=tmp_path / "orders") == {"code": 0, "error": None}
    start = limits(ask_server, feature_cache, small_photos, tmp_path / "run")
    assert start(resume=False, kill_step=7)["code"] == -9
    newest = tmp_path / "run" / "checkpoint" / "last.pt"
    before = newest.read_bytes()
    for file_bytes, named in ((len(before) - 100, "last.pt"), (300, "recipe.yaml")):
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
    """A disk of 3 MiB, where the system lets us mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
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


def error_of(work) -> str | None:
    """Give our error that some work ends with; None if it does not."""
    try:
        work()
    except TagloomError as error:
        return str(error)
    return None


def test_a_full_disk_gives_our_error_and_the_run_continues_when_there_is_room(
    small_disk, small_photos, feature_cache, tmp_path
):
    out, filler, plan, cache = small_disk / "run", small_disk / "filler", plan_of(small_photos), feature_cache
    train(plan, tmp_path / "whole", cache_folder=cache)
    errors: list[str] = []
    for room in (0, 8, 16, 24, 40, 80, 200, 500, 1000, 2800):  # KiB that are left: each lets the run get further
        disk = os.statvfs(small_disk)
        filler.write_bytes(bytes(max(0, disk.f_bavail * disk.f_frsize - room * 1024)))
        resume = (out / "run.json").exists()
        said = error_of(lambda resume=resume: train(plan, out, resume=resume, cache_folder=cache))
        filler.unlink()
        assert not list(small_disk.rglob("*.partial"))
        if said is None:
            break
        errors.append(said)
        assert not (out / "tagger.json").exists()
    print(f"{len(errors)} times full, first {errors[0]!r}, last {errors[-1]!r}")
    assert all("No space left on device" in said and "--resume" in said for said in errors), errors
    assert any("last.pt" in said or "images.pt" in said for said in errors)
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()


def test_a_disk_that_is_read_only_gives_our_error(small_disk, small_photos, tmp_path):
    (small_disk / "run").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for out, said in ((small_disk / "run", "cannot be written"), (small_disk / "new", "cannot be created")):
        with pytest.raises(TagloomError, match=said) as caught:
            train(plan_of(small_photos), out, cache_folder=tmp_path / "cache")
        assert "Read-only file system" in str(caught.value)
