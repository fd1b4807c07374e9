"""Starting the processes of `--processes N` on this machine, with torch's own elastic launcher.

It is what torchrun does: if a process dies, all are started again, and continue where the run was saved last. A
process that ends with a message of ours, or because somebody stopped it, has not died.
"""

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tagloom.cores import usable_cores
from tagloom.errors import TagloomError
from tagloom.extras import needs_train
from tagloom.training.signals import Interrupted

RESTARTS = 3
SAVING_SECONDS = "300"  # how long processes that are asked to stop may take to save
_TALKATIVE = ("torch.distributed.elastic.multiprocessing.api", "torch.distributed.elastic.agent.server.api")
_LOOPBACK = {"linux": "lo", "darwin": "lo0"}


def launch(work: Callable[[list[str]], int], arguments: list[str], processes: int) -> int:
    """Run a function in several processes, and give the first exit code that is not 0.

    Args:
        work: An importable function from command-line arguments to an exit code.
        arguments: What each process gets.
        processes: How many.
    """
    with needs_train("--processes"):
        from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.launcher.api import LaunchConfig, elastic_launch
    for name in _TALKATIVE:  # with a traceback of the launcher for each process that is lost
        logging.getLogger(name).setLevel(logging.CRITICAL)
    _share_cores(processes)
    logs = tempfile.mkdtemp(prefix="tagloom-processes-")
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=Path(logs).name,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=RESTARTS,
        # The first process shows what all do. What the others print is kept in case one of them fails.
        logs_specs=DefaultLogsSpecs(logs, dict.fromkeys(range(1, processes), Std.ALL)),
    )
    try:
        codes: dict[int, int] = elastic_launch(config, work)(arguments)
        for rank, code in codes.items():
            if code:
                return code if codes[0] else _complain(code, rank, logs)
        return 0
    except SignalException as error:
        return Interrupted(error.sigval).exit_code  # the first process has said how to continue
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        raise TagloomError(
            f"process {rank} of this run ended with code {failure.exitcode} (below 0: killed), after {RESTARTS} "
            f"restarts. {_last_words(logs, rank)}What was saved is kept: continue with --resume."
        ) from error
    finally:
        shutil.rmtree(logs, ignore_errors=True)


def _share_cores(processes: int) -> None:
    """Give each process its share of the cores, and let them talk inside this machine only."""
    if "OMP_NUM_THREADS" not in os.environ:
        os.environ["OMP_NUM_THREADS"] = str(max(1, usable_cores() // processes))
    if sys.platform in _LOOPBACK:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", _LOOPBACK[sys.platform])
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", SAVING_SECONDS)


def _complain(code: int, rank: int, logs: str) -> int:
    sys.stderr.write(f"process {rank}: {_last_words(logs, rank)}\n")
    return code


def _last_words(logs: str, rank: int) -> str:
    """Give the last line that a process other than the first printed on standard error."""
    found = sorted(Path(logs).glob(f"*/attempt_*/{rank}/stderr.log"))
    lines = found[-1].read_text(errors="replace").strip().splitlines() if found else []
    return f"It said: {lines[-1]} " if lines else ""
