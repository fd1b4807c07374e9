"""Running an exported network in ONNX Runtime, within limits that hold for the file of a stranger too."""

import os
import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom.cores import usable_cores
from tagloom.errors import TaggerError
from tagloom.tagger.onnx_check import check_onnx
from tagloom.wording import first_line, shown

MEMORY_VARIABLE = "TAGLOOM_NETWORK_GIB"
DEFAULT_MEMORY_GIB = 1.25
STOP_SECONDS = 5.0  # how long Ctrl-C waits for the step that is running

_CANNOT_RUN = "cannot be run. Export it again, or delete it to use torch"
_OUT_OF_MEMORY = ("Available memory of", "Failed to allocate memory", "bad allocation", "std::bad_alloc")


class OnnxNetwork:
    """An exported network: pictures in, arrays out.

    Call it with pictures, uint8 (B, H, W, 3), and with words (K, g, d_w) if it has word queries. It returns the list of
    the network's outputs, float32, each with B rows.

    A file that may come from a stranger is looked at before it is loaded (`onnx_check`), no part of it is computed
    while it is loaded, and all such networks of a process share a limited amount of memory. Pictures that need more at
    once are run a few at a time.

    Args:
        path: The ONNX file.
        threads: How many threads compute; None for all cores.
        ours: Whether this process, or the cache, has made the file: then there are no limits.
    """

    def __init__(self, path: Path, threads: int | None = None, *, ours: bool = False) -> None:
        import onnxruntime

        if not ours:
            check_onnx(path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or usable_cores()
        options.log_severity_level = 4  # its messages are about graph nodes; what matters comes as an exception
        switched_off = [] if ours else _limit(options)
        try:
            self._session: Any = onnxruntime.InferenceSession(
                str(path),
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers=switched_off,
                enable_fallback=0,
            )
        except Exception as error:  # onnxruntime has exceptions of its own
            raise TaggerError(f"{path}: {_CANNOT_RUN} ({first_line(error)}).") from error
        self._path = path
        self._inputs: list[str] = [value.name for value in self._session.get_inputs()]
        self._most: int | None = None  # pictures at once, where memory was too small for more

    def __call__(
        self, pictures: NDArray[np.uint8], words: NDArray[np.float32] | None = None
    ) -> list[NDArray[np.float32]]:
        """Run pictures, uint8 (B, H, W, 3), with or without words (K, g, d_w)."""
        given = [] if words is None else [words]
        if len(given) + 1 != len(self._inputs):
            raise TaggerError(
                f"{self._path}: takes {len(self._inputs)} inputs, but {len(given) + 1} were given. Take it and "
                "tagger.json from the same training."
            )
        if self._most is None or len(pictures) <= self._most:
            try:
                return self._run(pictures, *given)
            except MemoryError:
                self._most = len(pictures) // 2
        most = self._most  # running the first part may make it smaller
        if most == 0:
            raise TaggerError(
                f"{self._path}: needs more than {network_memory() / 2**30:g} GiB of memory for one picture. If you "
                f"trust it, allow more: {MEMORY_VARIABLE}=8"
            )
        parts = [self(pictures[:most], *given), self(pictures[most:], *given)]
        return [np.concatenate(outputs) for outputs in zip(*parts, strict=True)]

    def _run(self, *given: NDArray[np.generic]) -> list[NDArray[np.float32]]:
        feeds = {name: np.ascontiguousarray(value) for name, value in zip(self._inputs, given, strict=True)}
        try:
            outputs = _run_interruptibly(self._session, feeds)
        except Exception as error:
            if any(sign in str(error) for sign in _OUT_OF_MEMORY):
                raise MemoryError from error
            raise TaggerError(f"{self._path}: {_CANNOT_RUN} ({first_line(error)}).") from error
        for output in outputs:
            if not isinstance(output, np.ndarray) or output.dtype != np.float32 or output.shape[:1] != (len(given[0]),):
                found = f"{output.dtype} {output.shape}" if isinstance(output, np.ndarray) else shown(output)
                raise TaggerError(
                    f"{self._path}: gives {found} for {len(given[0])} pictures; expected float32 with a row for each. "
                    "Export it again, or delete it to use torch."
                )
        return outputs


def network_memory() -> int:
    """Give the bytes that all networks from tagger folders may use together while they run, weights not counted."""
    given = os.environ.get(MEMORY_VARIABLE, "")
    try:
        gib = float(given) if given else DEFAULT_MEMORY_GIB
    except ValueError:
        gib = 0.0
    if not 0 < gib < 2**20:
        raise TaggerError(f"{MEMORY_VARIABLE} is {shown(given)}; it must be a number of GiB, for example 8.")
    return int(gib * 2**30)


def _limit(options: Any) -> list[str]:
    """Make a session use the limited memory, and give the names of the optimisations that would not.

    Folding constants computes a part of the network while it is loaded, in memory that has no limit.
    """
    _share_limited_memory()
    options.add_session_config_entry("session.use_env_allocators", "1")
    options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
    return ["ConstantFolding", "ConstantFoldingDQ"]


@cache
def _share_limited_memory() -> None:
    """Register the memory that sessions share, once per process."""
    import onnxruntime

    kind = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    onnxruntime.create_and_register_allocator(kind, onnxruntime.OrtArenaCfg(network_memory(), -1, -1, -1))


def _run_interruptibly(session: Any, feeds: dict[str, NDArray[np.generic]]) -> list[Any]:
    """Run a session so that Ctrl-C stops it.

    Python handles signals in the main thread only, and not while that thread is inside ONNX Runtime. So another thread
    runs the session, and is told to stop.
    """
    import onnxruntime

    if threading.current_thread() is not threading.main_thread():
        return list(session.run(None, feeds))
    options = onnxruntime.RunOptions()
    outcome: list[Any] = []
    finished = threading.Event()  # a thread whose join was interrupted counts as finished, even if it is not

    def run() -> None:
        try:
            outcome.append(session.run(None, feeds, options))
        except BaseException as error:  # noqa: BLE001, it is raised again in the main thread
            outcome.append(error)
        finally:
            finished.set()

    threading.Thread(target=run, name="tagloom-network", daemon=True).start()
    try:
        finished.wait()
    except BaseException:  # KeyboardInterrupt, or what a signal handler raises
        options.terminate = True
        finished.wait(STOP_SECONDS)
        raise
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return list(outcome[0])
