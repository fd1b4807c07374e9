"""A process that has imported everything and forks a child for every job, so that a test can kill many of them.

It reads a job as a line of JSON, forks, waits, and answers with a line of JSON. A child that is killed is dead, with
its memory and its locks; what remains is what is on disk.
"""

import json
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tagloom.errors import TagloomError
from tagloom.models.network import load_network
from tagloom.recipe import recipe_from_dict
from tagloom.tagger.spec import read_spec
from tagloom.training import finish as finish_module
from tagloom.training import loop as loop_module
from tagloom.training.checkpoint import CheckpointStore
from tagloom.training.context import RunContext
from tagloom.training.log import RunLog
from tagloom.training.plan import RunPlan
from tagloom.training.run import train
from tagloom.training.signals import StopRequest
from tagloom.training.state import Position


def train_job(job: dict[str, Any]) -> None:
    """Train; write down which rows every step sees; die after a step, or where a file is about to be renamed."""
    if job.get("kill_step"):
        _die_at_call(Position, "add_step", job["kill_step"])
    if job.get("kill_rename"):
        _die_at_call(Path, "replace", job["kill_rename"])
    if job.get("file_bytes"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["file_bytes"], resource.RLIM_INFINITY))
    if job.get("keep_checkpoint"):
        CheckpointStore.remove = lambda store: None  # type: ignore[method-assign]
    if job.get("orders"):
        _note_orders(Path(job["orders"]))
    plan = RunPlan(job["data"], None, recipe_from_dict(job["recipe"]), export=False)
    train(plan, Path(job["out"]), resume=job["resume"], device="cpu", cache_folder=Path(job["cache"]))


def save_job(job: dict[str, Any]) -> None:
    """Save one checkpoint after the other, each with another number, and note each that is complete."""
    store = CheckpointStore(Path(job["out"]), "this run")
    before = store.load()
    with Path(job["noted"]).open("a", buffering=1) as noted:
        number = 0 if before is None else before["number"] + 1
        while True:
            store.save({"number": number, "weights": torch.full((job["values"],), float(number))})
            noted.write(f"{number}\n")
            number += 1


def folder_job(job: dict[str, Any]) -> None:
    """Write the tagger of one folder into one folder after the other."""
    source = Path(job["source"])
    spec = read_spec(source)
    network = load_network(source, spec)
    plan = RunPlan("", None, recipe_from_dict({}), export=False)
    with StopRequest() as stop, Path(job["noted"]).open("a", buffering=1) as noted:
        for number in range(100_000):
            out = Path(job["out"]) / str(number)
            out.mkdir(exist_ok=True)
            context = RunContext(out, torch.device("cpu"), out, stop, RunLog(out))
            finish_module._write_folder(spec, network, plan, context)
            noted.write(f"{number}\n")


def many_job(job: dict[str, Any]) -> None:
    """Train many times in one process, and note memory (KiB) and open files after each."""
    CheckpointStore.remove = lambda store: None  # type: ignore[method-assign]  # the folder is removed below
    plan = RunPlan(job["data"], None, recipe_from_dict(job["recipe"]), export=False)
    with Path(job["noted"]).open("a", buffering=1) as noted:
        for number in range(job["times"]):
            train(plan, Path(job["out"]) / str(number), device="cpu", cache_folder=Path(job["cache"]))
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            files = len(list(Path("/proc/self/fd").iterdir()))
            noted.write(f"{pages * os.sysconf('SC_PAGE_SIZE') // 1024} {files} {threading.active_count()}\n")


JOBS = {"train": train_job, "save": save_job, "folder": folder_job, "many": many_job}


def _die_at_call(owner: Any, name: str, number: int) -> None:
    """Let this process be killed when a method has been called so many times, before the last call does anything."""
    real, calls = getattr(owner, name), []

    def counting(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)

    setattr(owner, name, counting)


def _note_orders(path: Path) -> None:
    real = loop_module._Loop._optimise

    def noting(loop: Any, batches: Any) -> Any:
        position = loop.state.position
        rows = np.concatenate([batch.rows.numpy() for batch in batches]).tolist()
        with path.open("a") as file:
            file.write(json.dumps([position.epoch, position.step, rows]) + "\n")
        return real(loop, batches)

    loop_module._Loop._optimise = noting  # type: ignore[method-assign]


def main() -> None:
    torch.set_num_threads(1)
    for line in sys.stdin:
        job = json.loads(line)
        answer, child_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(answer)
            try:
                JOBS[job["kind"]](job)
                said = {"error": None}
            except TagloomError as error:
                said = {"error": str(error)}
            except BaseException as error:  # noqa: BLE001 - the test is told, and fails
                said = {"error": f"NOT OURS {type(error).__name__}: {error}"}
            os.write(child_end, json.dumps(said).encode())
            os._exit(0)
        os.close(child_end)
        if job.get("kill_seconds") is not None:
            noted = Path(job["noted"])
            before = noted.stat().st_size if noted.exists() else 0
            while not noted.exists() or noted.stat().st_size == before:  # until it has begun
                time.sleep(0.001)
            time.sleep(job["kill_seconds"])
            os.kill(child, signal.SIGKILL)
        with os.fdopen(answer, "rb") as file:
            said = file.read()
        _, status = os.waitpid(child, 0)
        found = json.loads(said) if said else {"error": None}
        print(json.dumps(found | {"code": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    main()
