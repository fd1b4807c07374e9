"""Real processes that are killed, asked to stop, and taken up again: the result is the same to the byte."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

RECIPE = """
task: multi
data: {holdout: 0.1}
preprocess: {size: 32}
augment: {flip: 0.5, cutout: 0.3}
backbone: {name: test_efficientnet, weights: none, frozen: false}
head: {options: {dropout: 0.2}}
optimiser: {name: adamw, learning_rate: 1e-3, clip_norm: 1}
training:
  {epochs: 12, batch_size: 6, accumulate: 2, ema: 0.9, select: best, workers: 0, checkpoint_minutes: 0, seed: 5}
"""
"""Everything that has a state: dropout, augmentation, batch norms, momentum, averages, groups of batches."""


class Training:
    """One run folder, and the processes that work on it."""

    def __init__(self, folder: Path, scenes: Path, *settings: str) -> None:
        self.out = folder / "run"
        (folder / "recipe.yaml").write_text(RECIPE)
        changes = [word for setting in settings for word in ("--set", setting)]
        self.first = [str(scenes / "train.csv"), "--recipe", str(folder / "recipe.yaml"), *changes]

    def start(self, resume: bool = False) -> subprocess.Popen[str]:
        arguments = ["--resume"] if resume else self.first
        return subprocess.Popen(
            [sys.executable, "-m", "tagloom.cli", "train", *arguments, "--out", str(self.out), "--device", "cpu"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a process group of its own, as a terminal gives it
            env={**os.environ, "OMP_NUM_THREADS": "1", "TAGLOOM_CACHE": str(self.out / "cache")},
        )

    def wait_for_steps(self, process: subprocess.Popen[str], steps: int) -> None:
        """Wait until the process has written so many checkpoints; there is one after every step."""
        path, seen, deadline = self.out / "checkpoint" / "last.pt", set[int](), time.monotonic() + 90
        before = path.stat().st_mtime_ns if path.exists() else 0
        while len(seen) < steps:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "no checkpoint appears"
            if path.exists() and path.stat().st_mtime_ns != before:
                seen.add(path.stat().st_mtime_ns)
            time.sleep(0.002)

    @property
    def weights(self) -> bytes:
        return (self.out / "model.safetensors").read_bytes()


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


def test_a_run_that_was_killed_then_stopped_and_resumed_twice_ends_with_the_same_bytes(tmp_path_factory, scenes):
    whole = Training(tmp_path_factory.mktemp("whole"), scenes)
    broken = Training(tmp_path_factory.mktemp("broken"), scenes)
    rng = np.random.default_rng()  # another step every time: it must hold for all of them
    uninterrupted, process = whole.start(), broken.start()

    broken.wait_for_steps(process, int(rng.integers(1, 15)))
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    assert not (broken.out / "tagger.json").exists()

    process = broken.start(resume=True)
    broken.wait_for_steps(process, int(rng.integers(1, 15)))
    process.terminate()
    code, errors = finish(process)
    assert code == 143, errors
    assert "saved" in errors
    assert not (broken.out / "tagger.json").exists()

    assert finish(broken.start(resume=True)) == (0, "")
    assert finish(uninterrupted) == (0, "")
    assert broken.weights == whole.weights
    assert not (broken.out / "checkpoint").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_to_the_whole_group_saves_though_workers_hear_it_too(tmp_path, scenes, number, code):
    training = Training(tmp_path, scenes, "training.workers=2")
    process = training.start()
    training.wait_for_steps(process, 2)
    os.killpg(process.pid, number)
    started = time.monotonic()
    found, errors = finish(process)
    assert found == code, errors
    assert time.monotonic() - started < 20
    assert errors == (
        f"stopped on request. Continue with: tagloom train --resume --out {training.out}\neverything so far is saved.\n"
    )
    assert (training.out / "checkpoint" / "last.pt").exists()

    again = training.start()
    assert finish(again)[0] == 2, "a run that was begun is not overwritten"
    process = training.start(resume=True)
    training.wait_for_steps(process, 1)
    process.kill()
    finish(process)
