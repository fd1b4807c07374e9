"""Running an exported network in ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom.cores import usable_cores
from tagloom.errors import TaggerError
from tagloom.wording import first_line

_CANNOT_RUN = "cannot be run. Export it again, or delete it to use torch"


class OnnxNetwork:
    """An exported network: pictures in, arrays out.

    Call it with pictures, uint8 (B, H, W, 3), and with words (K, g, d_w) if it has word queries. It returns the list of
    the network's outputs, float32.
    """

    def __init__(self, path: Path, threads: int | None = None) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or usable_cores()
        options.log_severity_level = 3  # its warnings are about graph nodes; no user can act on them
        try:
            self._session: Any = onnxruntime.InferenceSession(
                str(path), sess_options=options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime has exceptions of its own
            raise TaggerError(f"{path}: {_CANNOT_RUN} ({first_line(error)}).") from error
        self._path = path
        self._inputs: list[str] = [value.name for value in self._session.get_inputs()]

    def __call__(
        self, pictures: NDArray[np.uint8], words: NDArray[np.float32] | None = None
    ) -> list[NDArray[np.float32]]:
        """Run pictures, uint8 (B, H, W, 3), with or without words (K, g, d_w)."""
        given = [pictures] if words is None else [pictures, words]
        if len(given) != len(self._inputs):
            raise TaggerError(
                f"{self._path}: takes {len(self._inputs)} inputs, but {len(given)} were given. Take it and "
                "tagger.json from the same training."
            )
        try:
            outputs: list[NDArray[np.float32]] = self._session.run(
                None, {name: np.ascontiguousarray(value) for name, value in zip(self._inputs, given, strict=True)}
            )
        except Exception as error:
            raise TaggerError(f"{self._path}: {_CANNOT_RUN} ({first_line(error)}).") from error
        return outputs
