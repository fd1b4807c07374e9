"""Training planned runs on this machine: one after the other in this process, or each in a process of its own.

`python -m tagloom.training.distill.local_jobs FOLDER DEVICE CACHE THREADS` is such a process. The run's folder
holds its plan, so nothing else has to be passed, and its result is read from there.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import torch

from tagloom.errors import TagloomError
from tagloom.tagger.spec import SPEC_FILE
from tagloom.training.distill.teachers import PlannedRun
from tagloom.training.plan import RunPlan
from tagloom.training.run import train
from tagloom.training.signals import Interrupted, StopRequest

Errors = dict[str, str]
"""What went wrong, by the name of the run."""
_POLL_SECONDS = 0.1
_ERROR = "run failed: "  # a process prints this and its error at the end of its output


@dataclass(frozen=True)
class JobContext:
    """How planned runs are trained, and who hears of it.

    Attributes:
        jobs: How many train side by side. With Ray, how many a machine like this one would.
        device: As `train` takes it; locally, several GPUs are shared among the jobs.
        cache_folder: Where features of frozen backbones are kept.
        stop: When requested, all runs save what they have and `Interrupted` is raised.
        tell: Called often with the errors so far.
    """

    jobs: int
    device: str
    cache_folder: Path
    stop: StopRequest
    tell: Callable[[Mapping[str, str]], None]


def train_planned(folder: str, device: str, cache_folder: str, threads: int | None = None) -> None:
    """Train the run whose plan is in a folder, or continue it; do nothing if it is finished.

    Args:
        folder: The run's.
        device: As `train` takes it.
        cache_folder: Where features of frozen backbones are kept.
        threads: How many this process may use; None for no change.
    """
    out = Path(folder)
    if (out / SPEC_FILE).exists():
        return
    if threads is not None:
        torch.set_num_threads(threads)
    train(RunPlan.read(out), out, resume=True, device=device, cache_folder=Path(cache_folder))


def train_locally(runs: Sequence[PlannedRun], context: JobContext) -> Errors:
    """Train planned runs on this machine; if one fails, the others still train.

    Args:
        runs: What to train; their plans are in their folders.
        context: How to train them.

    Returns:
        What went wrong, by run; empty when all are finished.
    """
    return _one_by_one(runs, context) if context.jobs == 1 else _side_by_side(runs, context)


def threads_each(jobs: int) -> int:
    """Share this process's threads among jobs: more threads than cores are many times slower."""
    return max(1, torch.get_num_threads() // jobs)


def device_of(device: str, slot: int, gpus: int) -> str:
    """Give the device of the job in a slot.

    >>> device_of("auto", 3, gpus=2), device_of("auto", 3, gpus=0), device_of("cpu", 1, gpus=2)
    ('cuda:1', 'auto', 'cpu')
    """
    return f"cuda:{slot % gpus}" if device in ("auto", "cuda") and gpus > 1 else device


def _one_by_one(runs: Sequence[PlannedRun], context: JobContext) -> Errors:
    errors: Errors = {}
    for run in runs:
        context.stop.leave_if_requested()
        try:
            train_planned(str(run.folder), context.device, str(context.cache_folder))
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001 - whatever happens to one run, the others still train
            errors[run.name] = _described(error)
        context.tell(errors)
    return errors


class _Job(NamedTuple):
    run: PlannedRun
    process: subprocess.Popen[bytes]
    output: IO[bytes]

    def end(self) -> str:
        """Give the error that a finished process printed, or how it ended."""
        with self.output as file:
            file.seek(0)
            _, found, error = file.read().decode(errors="replace").rpartition(_ERROR)
        return error if found else f"its process ended with code {self.process.returncode} (below 0: killed)"


def _side_by_side(runs: Sequence[PlannedRun], context: JobContext) -> Errors:
    errors: Errors = {}
    stop = context.stop
    waiting, running = list(runs), dict[int, _Job]()
    try:
        while running or (waiting and not stop.requested):
            for slot in range(context.jobs):
                if waiting and slot not in running and not stop.requested:
                    running[slot] = _start(waiting.pop(0), slot, context)
            for slot, job in list(running.items()):
                if job.process.poll() is not None:
                    del running[slot]
                    error = job.end()
                    if job.process.returncode != 0 and not stop.requested:
                        errors[job.run.name] = error
            if stop.requested:
                _ask_to_stop(running.values())
            context.tell(errors)
            time.sleep(_POLL_SECONDS)
    finally:  # after a second Ctrl-C or an error of ours, too, no process is left behind
        _ask_to_stop(running.values())
        for job in running.values():
            job.process.wait()
            job.end()
    stop.leave_if_requested()
    return errors


def _start(run: PlannedRun, slot: int, context: JobContext) -> _Job:
    """Start the process of a run, with its share of threads and its GPU."""
    threads = str(threads_each(context.jobs))
    device = device_of(context.device, slot, torch.cuda.device_count())
    module = "tagloom.training.distill.local_jobs"
    output = tempfile.TemporaryFile()  # noqa: SIM115 - `_Job.end` closes it
    process = subprocess.Popen(
        [sys.executable, "-m", module, run.folder, device, context.cache_folder, threads],
        stdin=subprocess.PIPE,  # never written to: when this process dies, the other end is closed
        stdout=output,
        stderr=output,
        env={**os.environ, "OMP_NUM_THREADS": threads},
    )
    return _Job(run, process, output)


def _ask_to_stop(jobs: Iterable[_Job]) -> None:
    for job in jobs:
        with suppress(ProcessLookupError):
            job.process.terminate()


def _described(error: BaseException) -> str:
    return str(error) if isinstance(error, TagloomError) else f"{type(error).__name__}: {error}"


def _leave_with_the_parent() -> None:
    """Ask this process to stop when its parent is gone, so that no orphan trains in a folder that is resumed."""

    def wait() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    """Train one run in this process."""
    _leave_with_the_parent()
    folder, device, cache_folder, threads = sys.argv[1:]
    try:
        train_planned(folder, device, cache_folder, int(threads))
    except Interrupted as error:
        raise SystemExit(error.exit_code) from None
    except Exception as error:  # noqa: BLE001 - the process that started this one reports it
        sys.stdout.write(_ERROR + _described(error))
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
