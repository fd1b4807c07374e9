"""Running independent work as Ray tasks, on a cluster or on this machine. Ray does all the scheduling.

If a worker is lost, with its process or its machine, Ray starts its task again elsewhere, so a task must continue from
what it finds on disk. The cluster must see all folders under the same paths.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from tagloom.errors import MissingExtraError, TagloomError
from tagloom.wording import first_line

RETRIES = 3


class Stop(Protocol):
    """The part of a request to stop that is used here."""

    @property
    def requested(self) -> bool:
        """Whether somebody asked to stop."""

    def listen(self) -> None:
        """Catch signals, even if another library has replaced our handlers."""

    def leave_if_requested(self) -> None:
        """Raise if somebody asked to stop."""


@dataclass
class Outcomes:
    """What tasks came to, by name: their results, and what went wrong."""

    results: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


@contextmanager
def ray_cluster(stop: Stop) -> Iterator[Any]:
    """Connect to the cluster of RAY_ADDRESS or one that runs here; or start one for as long as the block lasts."""
    try:
        ray: Any = import_module("ray")  # its types follow the number of arguments, defaults left out
    except ModuleNotFoundError as error:
        raise MissingExtraError("--engine ray", "ray") from error
    ours = not ray.is_initialized()
    if ours:
        try:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError) as error:  # from an address that nobody answers to one that is none
            raise TagloomError(
                f"no connection to a Ray cluster ({first_line(error)}). Check RAY_ADDRESS, or unset it to start one on "
                "this machine."
            ) from error
        stop.listen()  # Ray catches SIGTERM itself, and would exit without saving
    try:
        yield ray
    finally:
        if ours:
            ray.shutdown()


def most_cores(ray: Any) -> int:
    """Count the cores of the largest machine of a cluster; 0 if none has any yet. Ray waits for ever for more."""
    return max((int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]), default=0)


def run_tasks(
    ray: Any,
    work: Callable[..., Any],
    calls: Mapping[str, Sequence[Any]],
    *,
    cores: int,
    gpus: float,
    again_after: type[BaseException],
    stop: Stop,
    tell: Callable[[Outcomes], None] = lambda outcomes: None,
) -> Outcomes:
    """Run a function for each call; if one fails, the others still run. When asked to stop, all tasks are cancelled.

    Args:
        ray: The module, connected.
        work: The function.
        calls: Its arguments, by the name of the call.
        cores: That each task asks for.
        gpus: That each task asks for, where the cluster has any; less than 1 for a share.
        again_after: An error after which a task is started again: one that was asked to stop has saved what it had.
        stop: Whether somebody asked to stop.
        tell: Called often with what there is so far.
    """
    task = ray.remote(work).options(
        num_cpus=cores,
        num_gpus=gpus if ray.cluster_resources().get("GPU") else 0,
        max_retries=RETRIES,
        retry_exceptions=[again_after],
    )
    pending = {task.remote(*arguments): name for name, arguments in calls.items()}
    outcomes = Outcomes()
    while pending:
        done, _ = ray.wait(list(pending), timeout=0.5)
        for each in done:
            name = pending.pop(each)
            try:
                outcomes.results[name] = ray.get(each)
            except ray.exceptions.RayTaskError as error:
                outcomes.errors[name] = str(error.cause)
            except ray.exceptions.RayError as error:
                outcomes.errors[name] = first_line(error)
        tell(outcomes)
        if stop.requested:
            for each in pending:
                ray.cancel(each)  # arrives in the task as Ctrl-C, so it saves
            ray.wait(list(pending), num_returns=len(pending), timeout=60)
            stop.leave_if_requested()
    return outcomes
