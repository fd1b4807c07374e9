"""Running exported networks in ONNX Runtime."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import TaggerError

_CANNOT_RUN = "cannot be run. Export it again, or delete it to use torch"


class OnnxNetwork:
    """An exported network: pictures in, arrays out.

    Call it with uint8 (B, H, W, 3); it gives the list of the network's outputs, float32.
    """

    def __init__(self, path: Path, threads: int | None = None) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or usable_cores()
        options.log_severity_level = 3  # its warnings speak of graph nodes, which no user can act on
        try:
            self._session: Any = onnxruntime.InferenceSession(
                str(path), sess_options=options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime has its own exception family, outside the standard one
            raise TaggerError(f"{path}: {_CANNOT_RUN} ({error}).") from error
        self._path = path
        self._input: str = self._session.get_inputs()[0].name

    def __call__(self, pictures: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
        """Run uint8 pictures (B, H, W, 3)."""
        try:
            outputs: list[NDArray[np.float32]] = self._session.run(None, {self._input: np.ascontiguousarray(pictures)})
        except Exception as error:
            raise TaggerError(f"{self._path}: {_CANNOT_RUN} ({error}).") from error
        return outputs


def usable_cores() -> int:
    """Count the cores this process may use, or what OMP_NUM_THREADS allows."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if limit.isdigit() and int(limit) > 0:
        return int(limit)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
