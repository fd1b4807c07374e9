"""Files of labels and their vectors. A tagger folder contains one for its classes.

`.safetensors`: a tensor "vectors" (n, d_w) and, in the metadata, "labels" as a JSON list. `.npz`: the arrays "labels"
(text) and "vectors".
"""

import json
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import WordError
from tagloom.files import whole_file

MAX_BYTES = 4 * 2**30
MAX_VALUES = 16_384
SUFFIXES = (".safetensors", ".npz")


class LabelVectors(NamedTuple):
    """Labels (n) and their vectors (n, d_w), float32."""

    labels: tuple[str, ...]
    vectors: NDArray[np.float32]


def read_vectors(path: Path) -> LabelVectors:
    """Read a file of vectors from an untrusted source."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise WordError(f"{path}: larger than {MAX_BYTES} bytes. Keep only the labels that you need.")
        labels, vectors = _read_npz(path) if path.suffix == ".npz" else _read_safetensors(path)
    except WordError:
        raise
    except Exception as error:  # both formats are parsed by libraries that may raise anything
        raise WordError(f"{path}: cannot be read as labels and vectors ({error}).") from error
    if vectors.ndim != 2 or not 0 < vectors.shape[1] <= MAX_VALUES or vectors.dtype.kind != "f":
        raise WordError(
            f"{path}: its vectors are {vectors.dtype} {vectors.shape}; expected rows of 1 to {MAX_VALUES} floats."
        )
    if len(labels) != len(vectors) or len(set(labels)) != len(labels) or not all(map(_is_name, labels)):
        raise WordError(
            f"{path}: {len(labels)} labels for {len(vectors)} vectors, or a label is empty or occurs twice."
        )
    return LabelVectors(tuple(labels), np.asarray(vectors, np.float32))


def write_vectors(path: Path, table: LabelVectors, *, half: bool = False) -> None:
    """Write a `.safetensors` file in one step, so that no half-written file remains.

    Args:
        path: The file.
        table: Labels and vectors.
        half: Store the values in float16: half the bytes, and three digits.
    """
    from safetensors.numpy import save

    kind = np.float16 if half else np.float32
    metadata = {"labels": json.dumps(list(table.labels), ensure_ascii=False)}
    with whole_file(path) as partial:
        partial.write_bytes(save({"vectors": np.ascontiguousarray(table.vectors, kind)}, metadata=metadata))


def _read_safetensors(path: Path) -> tuple[list[str], NDArray[np.floating]]:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        if "vectors" not in file.keys() or "labels" not in (file.metadata() or {}):  # noqa: SIM118, it is not a dict
            raise WordError(f"{path}: has no tensor 'vectors', or no 'labels' (a JSON list) in its metadata.")
        labels = json.loads(file.metadata()["labels"])
        if not isinstance(labels, list):
            raise WordError(f"{path}: 'labels' in its metadata is not a JSON list.")
        return labels, file.get_tensor("vectors")


def _read_npz(path: Path) -> tuple[list[str], NDArray[np.floating]]:
    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
            raise WordError(f"{path}: unpacks to more than {MAX_BYTES} bytes. Keep only the labels that you need.")
    with np.load(path, allow_pickle=False) as arrays:
        if not {"labels", "vectors"} <= set(arrays):
            raise WordError(f"{path}: has the arrays {', '.join(arrays)}; expected 'labels' and 'vectors'.")
        return arrays["labels"].tolist(), arrays["vectors"]


def _is_name(label: object) -> bool:
    return isinstance(label, str) and bool(label.strip())
