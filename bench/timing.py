"""Timing rivals fairly on a noisy machine: they take turns, and the best round of each counts."""

import time
from collections.abc import Callable


def best_seconds(rivals: dict[str, Callable[[], object]], *, rounds: int = 7, warm_up: int = 1) -> dict[str, float]:
    """Run every rival once per round, in turn, and give the least seconds of each."""
    best = dict.fromkeys(rivals, float("inf"))
    for number in range(warm_up + rounds):
        for name, run in rivals.items():
            started = time.perf_counter()
            run()
            if number >= warm_up:
                best[name] = min(best[name], time.perf_counter() - started)
    return best
