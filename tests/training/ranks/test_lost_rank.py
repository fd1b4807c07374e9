"""The command in several processes: one is killed, all are stopped, and the run ends as if nothing had happened."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tagloom

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes in /proc")

EPOCHS = 60
SMALL = ["backbone.name=test_efficientnet", "backbone.weights=none", "preprocess.size=32", "training.batch_size=8"]
OPTIONS = ["--recipe", "quick-gap", "--device", "cpu", "--epochs", str(EPOCHS)]
OPTIONS += [part for name in SMALL for part in ("--set", name)]


def command(start, photos, cache, out, *more):
    """Give a command that trains on small images."""
    return [*start, "train", str(photos / "train.csv"), *OPTIONS, "--cache", str(cache), "--out", str(out), *more]


def wait_for(path, process):
    for _ in range(1200):
        if path.exists():
            return
        assert process.poll() is None, "the run has ended"
        time.sleep(0.05)
    raise AssertionError(f"{path} is not there after a minute")


def ranks_of(launcher):
    """List the processes that a launcher started, by rank."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    return [int(child) for child in children if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes()]


def events(out, kind):
    lines = (out / "log.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def undisturbed(small_photos, cache, tmp_path_factory):
    """The folder of a run in one process, this one."""
    out = tmp_path_factory.mktemp("runs") / "one"
    settings = dict(name.split("=") for name in SMALL) | {"preprocess.size": 32, "training.batch_size": 8}
    choices = {"recipe": "quick-gap", "device": "cpu", "epochs": EPOCHS, "settings": settings}
    tagloom.train(small_photos / "train.csv", **choices, cache=cache, out=out, show_progress=False)
    return out


@pytest.mark.slow
def test_a_killed_process_is_replaced_and_the_run_ends_like_an_undisturbed_one(
    small_photos, cache, undisturbed, tmp_path
):
    out = tmp_path / "two"
    line = command([sys.executable, "-m", "tagloom"], small_photos, cache, out, "--processes", "2")
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as launcher:
        wait_for(out / "checkpoint" / "last.pt", launcher)
        os.kill(ranks_of(launcher)[1], signal.SIGKILL)
        said, _ = launcher.communicate(timeout=240)
    assert launcher.returncode == 0, said
    assert "a process was lost" in said
    assert len(events(out, "start")) == 2
    ours, theirs = events(out, "epoch"), events(undisturbed, "epoch")
    assert [row["epoch"] for row in ours][-1] == EPOCHS
    assert abs(ours[-1]["loss"] - theirs[-1]["loss"]) < 1e-4
    assert (out / "tagger.json").exists()
    assert not (out / "checkpoint").exists()


@pytest.mark.slow
def test_a_run_of_torchrun_is_stopped_with_two_processes_and_resumed_with_one(
    small_photos, cache, undisturbed, tmp_path
):
    out = tmp_path / "two"
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "tagloom"]
    with subprocess.Popen(
        command(start, small_photos, cache, out),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
    ) as launcher:
        wait_for(out / "checkpoint" / "last.pt", launcher)
        os.kill(ranks_of(launcher)[1], signal.SIGTERM)  # not even the one that writes
        said, _ = launcher.communicate(timeout=120)
    assert f"stopped on request. Continue with: tagloom train --resume --out {out}" in said
    assert not (out / "tagger.json").exists()
    tagloom.train(out=out, resume=True, device="cpu", cache=cache, show_progress=False)
    ours, theirs = events(out, "epoch"), events(undisturbed, "epoch")
    assert [row["epoch"] for row in ours] == list(range(1, EPOCHS + 1))
    assert abs(ours[-1]["loss"] - theirs[-1]["loss"]) < 1e-4
