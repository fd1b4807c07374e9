"""Running exported networks in ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom.cores import usable_cores
from tagloom.errors import TaggerError

_CANNOT_RUN = "cannot be run. Export it again, or delete it to use torch"


class OnnxNetwork:
    """An exported network: pictures in, arrays out.

    Call it with uint8 (B, H, W, 3), and words (K, g, d_w) where the network takes them; it gives the list of the
    network's outputs, float32.
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
        self._inputs: list[str] = [value.name for value in self._session.get_inputs()]

    def __call__(
        self, pictures: NDArray[np.uint8], words: NDArray[np.float32] | None = None
    ) -> list[NDArray[np.float32]]:
        """Run uint8 pictures (B, H, W, 3), with words (K, g, d_w) or without."""
        given = [pictures] if words is None else [pictures, words]
        if len(given) != len(self._inputs):
            raise TaggerError(
                f"{self._path}: takes {len(self._inputs)} inputs, and {len(given)} are at hand. Take it and "
                "tagger.json from the same training."
            )
        try:
            outputs: list[NDArray[np.float32]] = self._session.run(
                None, {name: np.ascontiguousarray(value) for name, value in zip(self._inputs, given, strict=True)}
            )
        except Exception as error:
            raise TaggerError(f"{self._path}: {_CANNOT_RUN} ({error}).") from error
        return outputs
