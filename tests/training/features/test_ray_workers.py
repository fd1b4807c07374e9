"""Extraction on real Ray workers: the features of one process, also where a worker is killed."""

import contextlib
import io
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file

from tagloom.cluster import Outcomes
from tagloom.data import load_table
from tagloom.data.packed.packing import pack
from tagloom.errors import TagloomError
from tagloom.models.network import build_network
from tagloom.recipe import load_recipe
from tagloom.recipe.pictures import Preprocess
from tagloom.training.features import ray_workers
from tagloom.training.features.extract import extract_features, hash_files
from tagloom.training.features.fill import ExtractionJob
from tagloom.training.features.ray_workers import RayWorkers, fill_part
from tagloom.training.features.shard import read_shard
from tagloom.training.plan import RunPlan
from tagloom.training.ranks import ALONE, Ranks
from tagloom.training.run import train
from tagloom.training.signals import StopRequest

pytest.importorskip("ray")
IMAGES = 600
DEADLINE = 240


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """Pictures that all differ, one of which cannot be read."""
    folder = tmp_path_factory.mktemp("photos")
    rng, rows = np.random.default_rng(0), ["image,labels"]
    for number in range(IMAGES):
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / f"{number}.png")
        rows.append(f"{number}.png,{'|'.join(name for name in 'abc' if rng.random() < 0.5) or 'a'}")
    (folder / "7.png").write_bytes(b"no picture")
    (folder / "train.csv").write_text("\n".join(rows) + "\n")
    return folder


class Training:
    """A `tagloom train` in a process of its own, with its own cache."""

    def __init__(self, photos: Path, folder: Path, *options: str) -> None:
        self.out, self.cache, self.photos = folder / "run", folder / "cache", photos
        choices = ["--recipe", "quick-gap", "--epochs", "1", "--set", "data.max_broken=0.2"]
        places = ["--out", str(self.out), "--cache", str(self.cache)]
        self.command = [sys.executable, "-m", "tagloom", "train", "train.csv", *choices, *places, *options]

    def start(self) -> subprocess.Popen[str]:
        # The table is named from where it lies, and so are its images.
        return subprocess.Popen(
            self.command, cwd=self.photos, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def cached(self) -> list[int]:
        """Count the images of each view in the cache, and how many of them there are twice."""
        counts = []
        for folder in sorted((self.cache / "features").iterdir()):
            keys = [key for path in folder.glob("*.safetensors") for key in read_shard(path).keys]
            counts += [len(keys), len(keys) - len(set(keys))]
        return counts

    def weights(self) -> dict[str, np.ndarray]:
        return load_file(self.out / "model.safetensors")


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=DEADLINE)
    return process.returncode, errors


@pytest.mark.slow
def test_workers_one_of_them_killed_give_the_features_of_one_process(photos, workers_below, tmp_path):
    alone = Training(photos, tmp_path / "alone")
    code, errors = finish(alone.start())
    assert code == 0, errors

    shared = Training(photos, tmp_path / "shared", "--engine", "ray")
    shutil.copytree(alone.cache / "extractors", shared.cache / "extractors")  # exporting takes seconds
    process = shared.start()
    begun = time.monotonic()
    while not (workers := workers_below(process.pid, "fill_part")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - begun < DEADLINE
        time.sleep(0.02)
    os.kill(workers[0], signal.SIGKILL)
    code, errors = finish(process)
    assert code == 0, errors
    assert shared.cached() == alone.cached()
    assert 0 in shared.cached(), "no image was computed twice"
    for name, value in alone.weights().items():
        np.testing.assert_allclose(shared.weights()[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


def test_a_part_computes_what_the_cache_does_not_hold(photos, tmp_path, monkeypatch):
    network = build_network(
        backbone="test_efficientnet",
        weights="none",
        head="gap",
        head_options={},
        classes=3,
        size=32,
        frozen=True,
    ).eval()
    job = ExtractionJob(network, Preprocess(size=32), tmp_path, torch.device("cpu"))
    paths = [photos / f"{number}.png" for number in range(10)]
    keys = [str(key) for key in hash_files(paths, StopRequest())]
    assert fill_part(job, "cpu", keys[:5], paths[:5]) == {}
    asked: list[str] = []
    fill = ExtractionJob.fill

    def counted(job, cache, run, todo, *others):
        asked.extend(todo)
        return fill(job, cache, run, todo, *others)

    monkeypatch.setattr(ExtractionJob, "fill", counted)
    broken = fill_part(job, "cpu", keys, paths)
    assert asked == keys[5:]
    assert [Path(error.path).name for error in broken.values()] == ["7.png"]
    assert fill_part(job, "cpu", keys[:5], paths[:5]) == {}
    assert asked == keys[5:], "nothing was left to do"


class Cluster:
    """What is asked of Ray to share rows out."""

    def __init__(self, cores: int) -> None:
        self.cores = cores

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(self.cores)}

    def put(self, value: object) -> object:
        return value


@pytest.fixture
def elsewhere(tmp_path, monkeypatch) -> Cluster:
    """A cluster whose tasks run here, with copies of what they are sent, in another folder."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()

    def run(ray, work, calls, **options) -> Outcomes:
        outcomes = Outcomes()
        for name, arguments in calls.items():
            copies = pickle.loads(pickle.dumps(arguments))  # noqa: S301  what the line before wrote
            with contextlib.chdir(folder):
                outcomes.results[name] = work(*copies)
        return outcomes

    monkeypatch.setattr(ray_workers, "run_tasks", run)
    return Cluster(2)


@pytest.mark.parametrize("kind", ["files", "shards", "tar"])
def test_images_named_from_here_are_found_by_workers_elsewhere(photos, elsewhere, tmp_path, monkeypatch, kind):
    table = load_table(photos / "train.csv").select(np.arange(4))
    if kind == "shards":
        pack(table, tmp_path / "packed")
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        for row in range(4):
            archive.add(photos / f"{row}.png", f"{row}.png")
            label = tarfile.TarInfo(f"{row}.cls")
            label.size = 1
            archive.addfile(label, io.BytesIO(b"a"))
    monkeypatch.chdir(photos if kind == "files" else tmp_path)
    named = load_table({"files": "train.csv", "shards": "packed", "tar": "photos.tar"}[kind]).select(np.arange(4))
    images = [named.image(row) for row in range(4)]
    found = RayWorkers(elsewhere, "cpu", StopRequest()).hash([*images, Path("gone.png")], lambda done, total: None)
    assert found[:4] == hash_files([photos / f"{row}.png" for row in range(4)], StopRequest())
    assert str(found[4]).startswith("gone.png: "), "an error names the file as the table does"


def test_features_that_are_on_another_machine_are_missed_at_once(photos, tmp_path):
    network = build_network(
        backbone="test_efficientnet", weights="none", head="gap", head_options={}, classes=3, size=32, frozen=True
    ).eval()
    asked: list[int] = []

    class WithOwnDisks:
        def hash(self, paths, progress):
            return hash_files(paths, StopRequest())

        def fill(self, job, todo, paths, progress):
            asked.append(len(todo))
            return {}

    with pytest.raises(TagloomError, match="all machines share"):
        extract_features(
            network,
            [photos / f"{number}.png" for number in range(3)],
            Preprocess(size=32),
            cache_folder=tmp_path,
            device=torch.device("cpu"),
            stop=StopRequest(),
            workers=WithOwnDisks(),
        )
    assert asked == [3], "they do not compute it again"


def test_a_cluster_without_gpus_is_sent_a_network_that_is_on_none(elsewhere, tmp_path, monkeypatch):
    network = build_network(
        backbone="test_efficientnet", weights="none", head="gap", head_options={}, classes=3, size=32, frozen=True
    ).eval()
    exported: list[torch.device] = []
    monkeypatch.setattr(ExtractionJob, "open_network", lambda job: exported.append(job.device))
    job = ExtractionJob(network, Preprocess(size=32), tmp_path, torch.device("meta"))  # as a GPU of this process alone
    RayWorkers(elsewhere, "auto", StopRequest()).fill(job, [], [], lambda done, total: None)
    assert exported == [torch.device("cpu")]


@pytest.mark.parametrize(("images", "cores", "parts"), [(1, 4, 1), (3, 2, 2), (4096, 2, 4), (10**6, 2, 32)])
def test_rows_are_shared_out_once_and_in_parts_of_about_one_size(images, cores, parts):
    shared = RayWorkers(Cluster(cores), "cpu", StopRequest())._parts(images)
    assert [row for part in shared for row in part] == list(range(images))
    assert len(shared) == parts
    assert max(map(len, shared)) - min(map(len, shared)) <= 1


@pytest.mark.parametrize(
    ("recipe", "world", "said"),
    [("fine-tune", ALONE, "trains from pictures"), ("quick", Ranks(0, 2), "leave out --processes")],
)
def test_a_cluster_that_would_have_nothing_to_do_is_refused(photos, tmp_path, recipe, world, said):
    plan = RunPlan(str(photos / "train.csv"), None, load_recipe(recipe))
    with pytest.raises(TagloomError, match=said):
        train(plan, tmp_path / "run", cache_folder=tmp_path, world=world, engine="ray")
    assert not (tmp_path / "run").exists()
