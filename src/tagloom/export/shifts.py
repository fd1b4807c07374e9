"""Bias correction: rounding must not make a channel brighter or darker on average.

The weights of a channel are rounded, and its inputs are rounded and cut off. On average over many positions most of
that cancels out, and what does not is a constant that can be added to the bias (Nagel et al. 2019, "Data-Free
Quantization through Weight Equalization and Bias Correction", section 4.2, here measured on pictures).
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from tagloom.export.graph import Array, constants_of
from tagloom.export.qdq import BESIDE, Layer, Range, quantise_beside
from tagloom.export.ranges import Inputs, run_network
from tagloom.progress import Progress, no_progress


def find_shifts(
    model: Any,
    layers: Collection[Layer],
    ranges: Mapping[str, Range],
    inputs: Inputs,
    progress: Progress = no_progress,
) -> dict[str, Array]:
    """Find what to add to the bias of each convolution, (channels,), so that its mean result stays what it was.

    Each layer reads what it reads in floats, so one pass over the pictures is enough for all layers.
    """
    convolutions = [layer for layer in layers if layer.result is not None]
    if not convolutions:
        return {}
    weights = constants_of(model)
    channels = [len(weights[layer.weight]) for layer in convolutions]
    tensors = [name for layer in convolutions for name in (str(layer.result), layer.name + BESIDE)]
    beside = quantise_beside(model, convolutions, ranges)
    sums = [np.zeros(count) for count in channels]
    total = len(inputs[0])
    for done, values in enumerate(run_network(beside, inputs, dict.fromkeys(tensors)), 1):
        found = dict(zip(dict.fromkeys(tensors), values, strict=True))
        for layer, count, shift in zip(convolutions, channels, sums, strict=True):
            exact, rounded = found[str(layer.result)], found[layer.name + BESIDE]
            shift += (exact - rounded).reshape(count, -1).mean(axis=1) / total
        progress(done, total)
    return {layer.name: shift.astype(np.float32) for layer, shift in zip(convolutions, sums, strict=True)}
