"""Which values the tensors of a network take on real pictures."""

import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom.export.graph import Array, write_graph
from tagloom.export.qdq import Range
from tagloom.progress import Progress, no_progress
from tagloom.tagger.onnx_runner import OnnxNetwork

KEPT_SHARE = 0.9999  # of a tensor's values, at either end; a few large ones would make every step coarser
BINS = 2048
SAMPLED_VALUES = 2**15  # of a tensor, per picture

Inputs = tuple[NDArray[np.uint8], tuple[NDArray[np.float32], ...]]
"""Pictures (n, H, W, 3), and the words of a network with word queries."""


def run_network(model: Any, inputs: Inputs, tensors: Collection[str]) -> Iterator[list[Array]]:
    """Give the values of some tensors for one picture after another, each as (1, values)."""
    from onnx import TensorProto, helper

    probed = type(model)()
    probed.CopyFrom(model)
    names = {name: f"{name}/probe" for name in tensors}
    del probed.graph.output[:]
    for name, probe in names.items():
        probed.graph.node.append(helper.make_node("Flatten", [name], [probe], axis=0))
        probed.graph.output.append(helper.make_tensor_value_info(probe, TensorProto.FLOAT, None))
    with tempfile.TemporaryDirectory(prefix="tagloom-export-") as folder:
        path = Path(folder, "probed.onnx")
        write_graph(probed, path)
        network = OnnxNetwork(path, threads=1)
        pictures, words = inputs
        for index in range(len(pictures)):
            yield list(network(pictures[index : index + 1], *words))


def find_ranges(
    model: Any, inputs: Inputs, tensors: Collection[str], progress: Progress = no_progress
) -> dict[str, Range]:
    """Find the range of each tensor that holds nearly all of its values on these pictures."""
    total = 2 * len(inputs[0])
    extremes = np.array([[np.inf, -np.inf]] * len(tensors))
    for done, values in enumerate(run_network(model, inputs, tensors), 1):
        extremes[:, 0] = np.minimum(extremes[:, 0], [value.min() for value in values])
        extremes[:, 1] = np.maximum(extremes[:, 1], [value.max() for value in values])
        progress(done, total)
    counts = np.zeros((len(tensors), BINS), np.int64)
    for done, values in enumerate(run_network(model, inputs, tensors), 1):
        for row, value, (low, high) in zip(counts, values, extremes, strict=True):
            if high > low:
                row += np.histogram(_sample(value[0]), BINS, (low, high))[0]
        progress(total // 2 + done, total)
    return {
        name: _most_of(row, (float(low), float(high)))
        for name, row, (low, high) in zip(tensors, counts, extremes, strict=True)
    }


def _sample(values: Array) -> Array:
    """Take values at equal distances; an odd distance meets every column of a map."""
    return values[:: len(values) // SAMPLED_VALUES | 1]


def _most_of(counts: NDArray[np.int64], extremes: Range) -> Range:
    """Cut a range to the bins that hold all values but a few at either end."""
    if not counts.any():
        return extremes
    low, high = extremes
    edges = np.linspace(low, high, BINS + 1)
    share = np.cumsum(counts) / counts.sum()
    first = int(np.searchsorted(share, 1 - KEPT_SHARE))
    last = int(np.searchsorted(share, KEPT_SHARE))
    # What ReLU leaves begins at zero, and most of it may be zero: only the other end is cut.
    return (low if low >= 0 else float(edges[first])), float(edges[min(last + 1, BINS)])


def rank_layers(
    change: Callable[[int], Any], count: int, model: Any, inputs: Inputs, output: str, progress: Progress = no_progress
) -> list[int]:
    """Order layers by the error that each adds to an output, the worst first.

    Args:
        change: Gives the network in which only one layer, by its number, is quantised.
        count: How many layers there are.
        model: The network as it was.
        inputs: Pictures to compare them on.
        output: The tensor that is compared.
        progress: Called with layers done and layers to do.
    """
    exact = _all_values(model, inputs, output)
    errors = []
    for number in range(count):
        errors.append(float(np.square(_all_values(change(number), inputs, output) - exact).mean()))
        progress(number + 1, count)
    return sorted(range(count), key=lambda number: -errors[number])


def _all_values(model: Any, inputs: Inputs, tensor: str) -> Array:
    return np.concatenate([values[0] for values in run_network(model, inputs, [tensor])])
