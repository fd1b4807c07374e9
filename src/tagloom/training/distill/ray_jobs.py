"""Training teachers as Ray tasks, on a cluster or on this machine. Ray does all the scheduling.

The cluster must see the folders of data, run and feature cache under the same paths. A worker that is lost, with its
process or its machine, costs what it did since its last checkpoint: Ray starts the task again, and it goes on from
there.
"""

import logging
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tagloom.errors import MissingExtraError
from tagloom.training.distill.local_jobs import Errors, Tell, threads_each, train_teacher
from tagloom.training.distill.teachers import Teacher
from tagloom.training.signals import Interrupted, StopRequest
from tagloom.wording import first_line

RETRIES = 3


def train_on_ray(
    teachers: Sequence[Teacher], *, jobs: int, device: str, cache_folder: Path, stop: StopRequest, tell: Tell
) -> Errors:
    """Train teachers as tasks of Ray; one that fails does not keep the others from training.

    Connects to the cluster that RAY_ADDRESS names, or starts one on this machine.

    Args:
        teachers: Whom to train; their plans are in their folders.
        jobs: How many a machine like this one trains side by side: each task asks for its share of the cores, and of
            one GPU where the cluster has any.
        device: As `train` takes it.
        cache_folder: Where features of frozen backbones are kept.
        stop: When requested, all save what they have and `Interrupted` is raised.
        tell: Called often with the errors so far.

    Returns:
        What went wrong, by teacher; empty when all are finished.
    """
    try:
        ray: Any = import_module("ray")  # its types follow the number of arguments, defaults left out
    except ModuleNotFoundError as error:
        raise MissingExtraError("--engine ray", "ray") from error
    ours = not ray.is_initialized()
    if ours:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        stop.listen()  # Ray catches SIGTERM for itself, and would leave without a word
    try:
        threads = threads_each(jobs)
        task = ray.remote(train_teacher).options(
            num_cpus=threads,
            num_gpus=1 / jobs if device != "cpu" and ray.cluster_resources().get("GPU") else 0,
            max_retries=RETRIES,
            retry_exceptions=[Interrupted],  # a worker that was asked to leave has saved what it had
        )
        pending: dict[Any, Teacher] = {
            task.remote(str(teacher.folder.resolve()), device, str(cache_folder.resolve()), threads): teacher
            for teacher in teachers
        }
        return _collect(ray, pending, stop, tell)
    finally:
        if ours:
            ray.shutdown()


def _collect(ray: Any, pending: dict[Any, Teacher], stop: StopRequest, tell: Tell) -> Errors:
    """Wait for all tasks, or cancel them when asked to stop."""
    errors: Errors = {}
    while pending:
        done, _ = ray.wait(list(pending), timeout=0.5)
        for task in done:
            teacher = pending.pop(task)
            try:
                ray.get(task)
            except ray.exceptions.RayTaskError as error:
                errors[teacher.name] = str(error.cause)
            except ray.exceptions.RayError as error:
                errors[teacher.name] = first_line(error)
        tell(errors)
        if stop.requested:
            for task in pending:
                ray.cancel(task)  # reaches a task as Ctrl-C does, which saves
            ray.wait(list(pending), num_returns=len(pending), timeout=60)
            stop.leave_if_requested()
    return errors
