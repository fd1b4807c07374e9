"""What teachers ask of a Ray cluster; no Ray is started here."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from tagloom.cluster import Outcomes
from tagloom.training.distill import ray_jobs


@pytest.mark.parametrize(("machines", "asked"), [((4, 2), 4), ((64,), 16), ((), 16), ((0,), 16)])
def test_a_teacher_asks_for_no_more_cores_than_a_machine_of_the_cluster_has(monkeypatch, machines, asked):
    nodes = [{"Alive": True, "Resources": {"CPU": float(cores)} if cores else {}} for cores in machines]
    gone = {"Alive": False, "Resources": {"CPU": 128.0}}
    told: list[int] = []

    def run(ray, work, calls, *, cores, **options) -> Outcomes:
        told.extend([cores, *(threads for *_, threads in calls.values())])
        return Outcomes()

    monkeypatch.setattr(ray_jobs, "threads_each", lambda jobs: 16)
    monkeypatch.setattr(
        ray_jobs, "ray_cluster", lambda stop: nullcontext(SimpleNamespace(nodes=lambda: [*nodes, gone]))
    )
    monkeypatch.setattr(ray_jobs, "run_tasks", run)
    context = SimpleNamespace(jobs=1, device="cpu", cache_folder=Path("cache"), stop=None, tell=None)
    ray_jobs.train_on_ray([SimpleNamespace(name="co-1", folder=Path("co-1"))], context)
    assert told == [asked, asked]
