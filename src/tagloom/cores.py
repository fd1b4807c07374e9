"""How many cores this process may use."""

import os


def usable_cores() -> int:
    """Count the cores this process may use; OMP_NUM_THREADS overrides the count."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        return int(limit)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
