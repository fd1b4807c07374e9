"""Running an exported network in ONNX Runtime, within limits that hold for the file of a stranger too."""

import mmap
import os
import threading
from collections.abc import Callable, Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tagloom.cores import usable_cores
from tagloom.errors import TaggerError
from tagloom.tagger.onnx_check import check_onnx
from tagloom.tagger.onnx_outputs import first_output_alone
from tagloom.tagger.onnx_weights import weights_in_float32
from tagloom.wording import first_line, shown

R = TypeVar("R")

MEMORY_VARIABLE = "TAGLOOM_NETWORK_GIB"
DEFAULT_MEMORY_GIB = 1.25
STOP_SECONDS = 5.0  # how long Ctrl-C waits for the step that is running

_CANNOT_RUN = "cannot be run. Export it again, or delete it to use torch"
_OUT_OF_MEMORY = ("Available memory of", "Failed to allocate memory", "bad allocation", "std::bad_alloc")


class OnnxNetwork:
    """An exported network: pictures in, arrays out.

    Call it with pictures, uint8 (B, H, W, 3), and with words (K, g, d_w) if it has word queries. It returns the list of
    the network's outputs, float32, each with B rows.

    Several threads may call it at once.

    A file that may come from a stranger is looked at before it is loaded (`onnx_check`), no part of it is computed
    while it is loaded, and all such networks of a process share a limited amount of memory. Pictures that need more at
    once are run a few at a time, and calls that need more together one after the other.

    Args:
        path: The ONNX file.
        threads: How many threads compute a call; None for all cores.
        ours: Whether we know who made the file: this process, the cache, or the Tagloom that ships it. Then there are
            no limits.
        first_only: Whether the first output is what is usually asked for. Then what only the others need is left out,
            and computed from when one of them is asked for.

    Attributes:
        outputs: Names of its outputs.
    """

    def __init__(self, path: Path, threads: int | None = None, *, ours: bool = False, first_only: bool = False) -> None:
        if not ours:
            check_onnx(path)
        self._path = path
        self._threads = threads or usable_cores()
        self._ours = ours
        content, self.outputs = _first_output(path) if first_only else (None, ())
        self._session: Any = self._open(content or str(path))
        self.outputs = self.outputs or tuple(value.name for value in self._session.get_outputs())
        self._whole: Any = None if content else self._session  # with all outputs
        self._opening = threading.Lock()
        self._inputs: list[str] = [value.name for value in self._session.get_inputs()]
        self._most: int | None = None  # pictures at once, where memory was too small for more
        self._turns = _Turns()
        self._running: dict[int, Any] = {}  # the options of each run, by the thread that called it

    def __call__(
        self,
        pictures: NDArray[np.uint8],
        words: NDArray[np.float32] | None = None,
        *,
        fetch: Sequence[str] | None = None,
    ) -> list[NDArray[np.float32]]:
        """Run pictures, uint8 (B, H, W, 3), with or without words (K, g, d_w), and give the outputs named `fetch`."""
        given = [] if words is None else [words]
        if len(given) + 1 != len(self._inputs):
            raise TaggerError(
                f"{self._path}: takes {len(self._inputs)} inputs, but {len(given) + 1} were given. Take it and "
                "tagger.json from the same training."
            )
        if self._most is None or len(pictures) <= self._most:
            try:
                return self._turns.take(lambda: self._run(list(fetch or self.outputs), pictures, *given))
            except MemoryError:
                self._most = len(pictures) // 2
        most = self._most  # running the first part may make it smaller
        if most == 0:
            raise TaggerError(
                f"{self._path}: needs more than {network_memory() / 2**30:g} GiB of memory for one picture. If you "
                f"trust it, allow more: {MEMORY_VARIABLE}=8"
            )
        parts = [self(some, *given, fetch=fetch) for some in (pictures[:most], pictures[most:])]
        return [np.concatenate(outputs) for outputs in zip(*parts, strict=True)]

    def _open(self, source: str | bytes) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.log_severity_level = 4  # its messages are about graph nodes; what matters comes as an exception
        switched_off = [] if self._ours else _limit(options)
        try:
            return onnxruntime.InferenceSession(
                source if self._ours else _cast_weights(source),
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers=switched_off,
                enable_fallback=0,
            )
        except Exception as error:  # onnxruntime has exceptions of its own
            raise TaggerError(f"{self._path}: {_CANNOT_RUN} ({first_line(error)}).") from error

    def _session_for(self, fetch: Sequence[str]) -> Any:
        """Give the session that computes these outputs; the one with all outputs is opened when it is needed."""
        if self._whole is None and tuple(fetch) != self.outputs[:1]:
            with self._opening:
                self._whole = self._whole or self._open(str(self._path))
        return self._session if tuple(fetch) == self.outputs[:1] else self._whole

    def stop(self, threads: Collection[int]) -> None:
        """Make the calls that these threads, by their identities, are waiting for end soon. They then raise."""
        for thread, options in list(self._running.items()):
            if thread in threads:
                options.terminate = True

    def _run(self, fetch: list[str], *given: NDArray[np.generic]) -> list[NDArray[np.float32]]:
        feeds = {name: np.ascontiguousarray(value) for name, value in zip(self._inputs, given, strict=True)}
        try:
            outputs = self._run_stoppably(fetch, feeds)
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

    def _run_stoppably(self, fetch: list[str], feeds: dict[str, NDArray[np.generic]]) -> list[Any]:
        """Run the session so that `stop` or Ctrl-C ends it.

        Python handles signals in the main thread only, and not while that thread is inside ONNX Runtime. So if it is
        the main thread that asks, another thread runs the session, and is told to stop.
        """
        import onnxruntime

        session, options = self._session_for(fetch), onnxruntime.RunOptions()
        if threading.current_thread() is threading.main_thread():
            return _run_beside(lambda: session.run(fetch, feeds, options), options)
        self._running[threading.get_ident()] = options
        try:
            return list(session.run(fetch, feeds, options))
        finally:
            del self._running[threading.get_ident()]


class _Turns:
    """Lets any number of threads work at once, until memory is too small for it: then one after the other."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._at_work = 0
        self._one_by_one = False

    def take(self, work: Callable[[], R]) -> R:
        """Do the work. A `MemoryError` is raised only if there is too little memory for this work alone."""
        try:
            return self._wait_and_do(work)
        except MemoryError:
            self._one_by_one = True
            return self._wait_and_do(work)

    def _wait_and_do(self, work: Callable[[], R]) -> R:
        with self._changed:
            self._changed.wait_for(lambda: not (self._one_by_one and self._at_work))
            self._at_work += 1
        try:
            return work()
        finally:
            with self._changed:
                self._at_work -= 1
                self._changed.notify_all()


def _first_output(path: Path) -> tuple[bytes | None, tuple[str, ...]]:
    try:
        return first_output_alone(path)
    except (OSError, ValueError) as error:
        raise TaggerError(f"{path}: {_CANNOT_RUN} ({first_line(error)}).") from error


def _cast_weights(source: str | bytes) -> str | bytes:
    """Cast weights that a file casts at every call, where ONNX Runtime may not do it when it loads the file."""
    if isinstance(source, bytes):
        return weights_in_float32(memoryview(source)) or source
    with Path(source).open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return weights_in_float32(memoryview(content)) or source


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


def _run_beside(run: Callable[[], Any], options: Any) -> list[Any]:
    """Run in another thread, and wait for it. An exception here, such as Ctrl-C, stops the run."""
    outcome: list[Any] = []
    finished = threading.Event()  # a thread whose join was interrupted counts as finished, even if it is not

    def run_and_tell() -> None:
        try:
            outcome.append(run())
        except BaseException as error:  # noqa: BLE001, it is raised again in the main thread
            outcome.append(error)
        finally:
            finished.set()

    threading.Thread(target=run_and_tell, name="tagloom-network", daemon=True).start()
    try:
        finished.wait()
    except BaseException:  # KeyboardInterrupt, or what a signal handler raises
        options.terminate = True
        finished.wait(STOP_SECONDS)
        raise
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return list(outcome[0])
