"""Training planned runs as Ray tasks, on a cluster or on this machine. Ray does all the scheduling.

The cluster must see the folders of data, run and feature cache under the same paths. If a worker is lost, with its
process or its machine, so is what it did since its last checkpoint: Ray starts the task again, and it continues from
there.
"""

import logging
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tagloom.errors import MissingExtraError
from tagloom.training.distill.local_jobs import Errors, JobContext, threads_each, train_planned
from tagloom.training.distill.teachers import PlannedRun
from tagloom.training.signals import Interrupted
from tagloom.wording import first_line

RETRIES = 3


def train_on_ray(runs: Sequence[PlannedRun], context: JobContext) -> Errors:
    """Train planned runs as Ray tasks; if one fails, the others still train.

    Connects to the cluster that RAY_ADDRESS names, or starts one on this machine. Each task asks for its share of the
    cores of a machine like this one, and of one GPU where the cluster has any.

    Args:
        runs: What to train; their plans are in their folders.
        context: How to train them.

    Returns:
        What went wrong, by run; empty when all are finished.
    """
    try:
        ray: Any = import_module("ray")  # its types follow the number of arguments, defaults left out
    except ModuleNotFoundError as error:
        raise MissingExtraError("--engine ray", "ray") from error
    ours = not ray.is_initialized()
    if ours:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        context.stop.listen()  # Ray catches SIGTERM itself, and would exit without saving
    try:
        threads = threads_each(context.jobs)
        task = ray.remote(train_planned).options(
            num_cpus=threads,
            num_gpus=1 / context.jobs if context.device != "cpu" and ray.cluster_resources().get("GPU") else 0,
            max_retries=RETRIES,
            retry_exceptions=[Interrupted],  # a worker that was asked to stop has saved what it had
        )
        pending: dict[Any, PlannedRun] = {
            task.remote(str(run.folder.resolve()), context.device, str(context.cache_folder.resolve()), threads): run
            for run in runs
        }
        return _collect(ray, pending, context)
    finally:
        if ours:
            ray.shutdown()


def _collect(ray: Any, pending: dict[Any, PlannedRun], context: JobContext) -> Errors:
    """Wait for all tasks, or cancel them when asked to stop."""
    errors: Errors = {}
    while pending:
        done, _ = ray.wait(list(pending), timeout=0.5)
        for task in done:
            run = pending.pop(task)
            try:
                ray.get(task)
            except ray.exceptions.RayTaskError as error:
                errors[run.name] = str(error.cause)
            except ray.exceptions.RayError as error:
                errors[run.name] = first_line(error)
        context.tell(errors)
        if context.stop.requested:
            for task in pending:
                ray.cancel(task)  # arrives in the task as Ctrl-C, so it saves
            ray.wait(list(pending), num_returns=len(pending), timeout=60)
            context.stop.leave_if_requested()
    return errors
