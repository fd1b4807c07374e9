"""Prediction on real Ray workers: the files of one process, also where a worker is killed or somebody stops it."""

import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagloom.cluster import Outcomes
from tagloom.errors import TagloomError
from tagloom.predict import ray_parts
from tagloom.predict.files import Job
from tagloom.predict.inputs import Shard
from tagloom.predict.journal import Entry, in_turn, journal_path
from tagloom.training.signals import Interrupted, StopRequest

pytest.importorskip("ray")
IMAGES = 3000
DEADLINE = 120


@given(st.integers(0, 60), st.integers(1, 5), st.integers(1, 4))
def test_parts_in_turn_are_the_images_in_order(count, parts, block):
    shards = [Shard(index, parts, block) for index in range(parts)]
    dealt = [[Entry(str(n), []) for n in range(count) if shard.has(n)] for shard in shards]
    assert [entry.image for entry in in_turn([iter(part) for part in dealt], block)] == [str(n) for n in range(count)]
    assert [len(part) for part in dealt] == [shard.share(count) for shard in shards]


@pytest.fixture(scope="module")
def listed(scenes, tmp_path_factory) -> Path:
    """Many images, one of which cannot be read: the same few again and again."""
    folder = tmp_path_factory.mktemp("listed")
    (folder / "broken.jpg").write_bytes(b"no picture")
    paths = [str(path) for path in sorted((scenes / "images").iterdir())]
    lines = [paths[number % len(paths)] for number in range(IMAGES)]
    lines[7] = "broken.jpg"
    (folder / "images.txt").write_text("\n".join(lines))
    return folder / "images.txt"


class Prediction:
    """A `tagloom predict` in a process of its own."""

    def __init__(self, run: Path, images: Path, folder: Path, *options: str) -> None:
        folder.mkdir(exist_ok=True)
        self.out, self.scores = folder / "tags.csv", folder / "scores.parquet"
        files = ["--out", str(self.out), "--scores", str(self.scores)]
        self.command = [sys.executable, "-m", "tagloom", "predict", str(run), str(images), *files, *options]

    def start(self, *more: str) -> subprocess.Popen[str]:
        # Their own session, so that what is asked to stop is this command alone.
        return subprocess.Popen(
            [*self.command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def tagged(self, part: int) -> int:
        """Count the images in the journal of a part."""
        path = self.out.with_name(f"tags.csv.part-{part}-of-2.partial")
        return path.read_bytes().count(b"\n") - 1 if path.exists() else 0

    def wait_for_work(self, process: subprocess.Popen[str], images: int) -> None:
        begun = time.monotonic()
        while self.tagged(1) < images:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() - begun < DEADLINE
            time.sleep(0.02)

    def files(self) -> tuple[bytes, list[str]]:
        return self.out.read_bytes(), sorted(path.name for path in self.out.parent.iterdir())


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=DEADLINE)
    return process.returncode, errors


class NoTagger:
    """What is asked of a tagger here, whose images others tag."""

    pictures_at_once = 1
    classes = ("a",)

    def rule(self) -> None:
        return None


@pytest.fixture
def no_ray(monkeypatch):
    """Workers that have tagged all, on disks of their own."""

    def run(ray, work, calls, **options) -> Outcomes:
        return Outcomes({name: ray_parts.PartDone(2, 0, []) for name in calls})

    monkeypatch.setattr(ray_parts, "ray_cluster", lambda stop: nullcontext())
    monkeypatch.setattr(ray_parts, "run_tasks", run)


def run_parts(folder: Path, parts: int) -> None:
    job = Job(NoTagger(), [folder], out=folder / "tags.csv")
    ray_parts.run_on_ray(
        job, ray_parts.TaggerSource(None), parts, resume=True, stop=StopRequest(), interrupted=Interrupted
    )


def test_tags_that_are_on_another_machine_are_missed(no_ray, tmp_path):
    with pytest.raises(TagloomError, match="all machines share"):
        run_parts(tmp_path, 2)
    assert not (tmp_path / "tags.csv").exists()


def test_another_number_of_parts_does_not_forget_those_that_were_stopped(no_ray, tmp_path):
    journal_path(ray_parts.part_file(tmp_path / "tags.csv", Shard(0, 3))).write_text("{}")
    with pytest.raises(TagloomError, match="--parts 3"):
        run_parts(tmp_path, 2)


@pytest.mark.slow
def test_two_workers_one_of_them_killed_and_a_stop_give_the_files_of_one_process(
    untrained_run, listed, workers_below, tmp_path
):
    from pyarrow.parquet import read_table

    alone = Prediction(untrained_run, listed, tmp_path / "alone")
    code, errors = finish(alone.start())
    assert code == 0, errors
    shared = Prediction(untrained_run, listed, tmp_path / "shared", "--engine", "ray", "--parts", "2")
    process = shared.start()
    shared.wait_for_work(process, 50)
    process.terminate()
    code, errors = finish(process)
    assert code == 143
    assert "Continue with the same command and --resume" in errors
    done = shared.tagged(1)
    assert 50 <= done < IMAGES / 2, "it was stopped in the middle"

    code, errors = finish(shared.start())
    assert code == 2
    assert "--resume" in errors

    process = shared.start("--resume")
    shared.wait_for_work(process, done + 50)
    worker = workers_below(process.pid, "tag_part")[0]
    os.kill(worker, signal.SIGKILL)
    code, errors = finish(process)
    assert code == 0, errors
    assert shared.files() == alone.files(), "byte for byte, and nothing else is left"
    assert read_table(shared.scores).equals(read_table(alone.scores))
    assert len(shared.out.read_text().splitlines()) == IMAGES
