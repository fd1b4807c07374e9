"""Whether this process is one of several that work together, by what torchrun leaves in the environment."""

import os

_PARENT = os.getppid()  # the launcher, where there is one


def is_launched() -> bool:
    """Whether torchrun, or `--processes`, started this process as one of several."""
    return processes_launched() > 1


def processes_launched() -> int:
    """Count the processes that work together with this one, itself included."""
    complete = "RANK" in os.environ and "MASTER_ADDR" in os.environ
    return int(os.environ.get("WORLD_SIZE", "1")) if complete else 1


def rank_launched() -> int:
    """Give the number of this process among them, from 0."""
    return int(os.environ["RANK"]) if is_launched() else 0


def restarts() -> int:
    """Count how often they were all started again because one was lost."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) if is_launched() else 0


def ask_launcher_to_stop(number: int) -> None:
    """Pass a stop on to the launcher of these processes, which would otherwise start them again when they leave.

    Args:
        number: The signal that asked to stop.
    """
    launched = is_launched() and "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("LOCAL_RANK") == "0"
    if launched and os.getppid() == _PARENT > 1:  # somebody else's child now: the launcher has gone
        os.kill(_PARENT, number)
