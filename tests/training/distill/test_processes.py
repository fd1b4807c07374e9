"""Distillation in real processes that are killed, asked to stop, and taken up again: nothing that was done is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tagloom.errors import TagloomError
from tagloom.recipe import recipe_from_dict
from tagloom.recipe.distillation import Distillation
from tagloom.recipe.yaml_text import read_yaml
from tagloom.training.distill.run import distill
from tagloom.training.plan import RunPlan

pytestmark = pytest.mark.slow

RECIPE = """
preprocess: {size: 32}
data: {holdout: 0.1}
augment: {flip: 0.5, cutout: 0.3}
backbone: {name: test_efficientnet, weights: none, frozen: false}
head: {options: {dropout: 0.2}}
optimiser: {name: adamw, learning_rate: 1e-3, clip_norm: 1}
training: {epochs: 12, batch_size: 6, ema: 0.9, select: last, workers: 0, checkpoint_minutes: 0, seed: 5}
"""
"""A checkpoint after every step, and everything that has a state."""
NAMES = ("co-1", "co-2")


class Distilling:
    """One student's folder, and the processes that work on it."""

    def __init__(self, folder: Path, scenes: Path, *options: str) -> None:
        self.out = folder / "run"
        (folder / "recipe.yaml").write_text(RECIPE)
        self.first = [str(scenes / "train.csv"), "--recipe", str(folder / "recipe.yaml"), "--k", "2", "--kinds", "co"]
        self.first += ["--teacher-epochs", "12", "--images", "all"]  # 54 images: no batch of one, which norms refuse
        self.options = options

    def start(self, resume: bool = False) -> subprocess.Popen[str]:
        arguments = ["--resume"] if resume else self.first
        places = ["--out", str(self.out), "--cache", str(self.out.parent / "cache"), "--device", "cpu"]
        return subprocess.Popen(
            [sys.executable, "-m", "tagloom.cli", "distill", *arguments, *places, *self.options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def teacher(self, name: str) -> Path:
        return self.out / "teachers" / name

    def weights(self) -> dict[str, bytes]:
        folders = {"student": self.out} | {name: self.teacher(name) for name in NAMES}
        return {name: (folder / "model.safetensors").read_bytes() for name, folder in folders.items()}

    def process_of(self, name: str) -> int:
        lines = [json.loads(line) for line in (self.teacher(name) / "log.jsonl").read_text().splitlines()]
        return int([line["process"] for line in lines if line["event"] == "start"][-1])


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not ready():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.01)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=180)
    return process.returncode, output, errors


def trained(folder: Path, epoch: int = 3) -> Callable[[], bool]:
    """Whether a run has done an epoch."""
    log = folder / "log.jsonl"
    return lambda: log.exists() and f'"epoch": {epoch},' in log.read_text()


@pytest.fixture(scope="module")
def whole(tmp_path_factory, scenes) -> dict[str, bytes]:
    """The weights of a distillation that nobody disturbed."""
    undisturbed = Distilling(tmp_path_factory.mktemp("whole"), scenes)
    code, output, errors = finish(undisturbed.start())
    assert code == 0, errors
    assert "teacher co-2: finished" in output
    return undisturbed.weights()


def test_killed_in_a_teacher_and_stopped_in_the_student_it_ends_with_the_same_bytes(tmp_path, scenes, whole):
    broken = Distilling(tmp_path, scenes)
    process = broken.start()
    wait_until(trained(broken.teacher("co-2")), process)
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    assert (broken.teacher("co-2") / "checkpoint" / "last.pt").exists()
    assert not (broken.teacher("co-2") / "tagger.json").exists()
    kept = broken.teacher("co-1") / "model.safetensors"
    before = kept.stat().st_mtime_ns, kept.read_bytes()

    assert finish(broken.start())[0] == 2, "a run that was begun is not overwritten"
    process = broken.start(resume=True)
    wait_until(trained(broken.out), process)
    process.terminate()
    code, _, errors = finish(process)
    assert code == 143, errors
    assert errors == (
        f"stopped on request. Continue with: tagloom distill --resume --out {broken.out} --cache {tmp_path / 'cache'}\n"
        "everything so far is saved.\n"
    )
    assert finish(broken.start(resume=True))[0] == 0
    assert (kept.stat().st_mtime_ns, kept.read_bytes()) == before, "a finished teacher is not trained again"
    assert broken.weights() == whole


def test_teachers_side_by_side_are_the_same_and_leave_with_whoever_started_them(tmp_path, scenes, whole):
    both = Distilling(tmp_path, scenes, "--jobs", "2")
    process = both.start()
    wait_until(trained(both.teacher("co-1")), process)
    wait_until(trained(both.teacher("co-2")), process)
    children = [both.process_of(name) for name in NAMES]
    assert len({*children, process.pid}) == 3
    process.kill()
    finish(process)
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline, "an orphan trains on"
        time.sleep(0.1)

    process = both.start(resume=True)
    wait_until(lambda: any((both.teacher(name) / "tagger.json").exists() for name in NAMES), process)
    os.killpg(process.pid, signal.SIGTERM)
    code, _, errors = finish(process)
    assert code in (143, 0), errors
    if code:
        assert finish(both.start(resume=True))[0] == 0
    assert both.weights() == whole


def test_a_teacher_that_fails_in_its_own_process_is_named_and_the_others_go_on(tmp_path, scenes):
    recipe = recipe_from_dict(read_yaml(RECIPE.replace("epochs: 12", "epochs: 1"), "recipe"))
    settings = Distillation(1, kinds=("co",), k=2, baseline=True)
    plan = RunPlan(str(scenes / "train.csv"), None, recipe, export=False, distill=settings)
    out = tmp_path / "run"
    checkpoint = out / "teachers" / "co-1" / "checkpoint" / "last.pt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"no checkpoint")
    with pytest.raises(TagloomError) as caught:
        distill(plan, out, cache_folder=tmp_path / "cache", jobs=2)
    assert "1 of 3 runs before the student failed" in str(caught.value)
    assert f"co-1: {checkpoint}: cannot be read" in str(caught.value)
    assert (out / "teachers" / "co-2" / "tagger.json").exists()
    assert (out / "baseline" / "tagger.json").exists()
    checkpoint.unlink()
    distill(plan, out, resume=True, cache_folder=tmp_path / "cache", jobs=2)
    assert (out / "tagger.json").exists()


def test_ray_stops_on_request_and_replaces_a_worker_that_is_killed_and_the_student_comes_out(tmp_path, scenes, whole):
    pytest.importorskip("ray")
    lost = Distilling(tmp_path, scenes, "--engine", "ray", "--jobs", "2")
    process = lost.start()
    wait_until(trained(lost.teacher("co-1")), process)
    process.terminate()
    assert finish(process)[0] == 143

    process = lost.start(resume=True)
    wait_until(trained(lost.teacher("co-1"), 8), process)
    worker = lost.process_of("co-1")
    assert worker != process.pid
    os.kill(worker, signal.SIGKILL)
    code, _, errors = finish(process)
    assert code == 0, errors
    assert lost.process_of("co-1") != worker, "it was started again"
    assert lost.weights() == whole, "and went on from its checkpoint"
