"""A network in eight bits, with those layers in floats that would change its scores too much."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tagloom.errors import TaggerError
from tagloom.export.qdq import find_layers, quantise, quantised_tensors
from tagloom.export.ranges import Inputs, find_ranges, rank_layers
from tagloom.export.shifts import find_shifts
from tagloom.progress import Progress, no_progress

SHIFT_PICTURES = 64
RANKING_PICTURES = 16  # enough to tell the layers that hurt from the others


class EightBits(NamedTuple):
    """A quantised network.

    Attributes:
        model: The ONNX model.
        layers: How many of its layers compute in eight bits.
        in_float: The weights of the layers that stayed in floats.
    """

    model: Any
    layers: int
    in_float: tuple[str, ...]


def quantise_network(
    model: Any,
    inputs: Inputs,
    is_good: Callable[[Any], bool],
    progress: Progress = no_progress,
) -> EightBits:
    """Quantise a network by pictures.

    All layers are tried first. If the outcome is not good, each layer is quantised alone to see what error it adds to
    the logits. The 1, 2, 4, … worst then stay in floats, until the outcome is good or half of all layers would be in
    floats: what is left would hardly be faster.

    Args:
        model: The network, with constants folded.
        inputs: Pictures that show which values its tensors take.
        is_good: Whether a quantised network may be kept.
        progress: Called with steps done and steps to do.

    Returns:
        The first good network, or the last that was tried.
    """
    logits = model.graph.output[0].name
    layers = find_layers(model, logits)
    if not layers:
        raise TaggerError("the network has no convolution and no matrix product that could compute in eight bits.")
    ranges = find_ranges(model, inputs, quantised_tensors(model, layers), progress)
    shifts = find_shifts(model, layers, ranges, (inputs[0][:SHIFT_PICTURES], inputs[1]), progress)
    result = EightBits(quantise(model, layers, ranges, shifts), len(layers), ())
    if is_good(result.model):
        return result
    few = (inputs[0][:RANKING_PICTURES], inputs[1])
    order = rank_layers(
        lambda number: quantise(model, layers[number : number + 1], ranges, shifts),
        len(layers),
        model,
        few,
        logits,
        progress,
    )
    count = 1
    while 2 * count <= len(layers):
        kept = [layer for number, layer in enumerate(layers) if number not in order[:count]]
        in_float = tuple(layers[number].weight for number in order[:count])
        result = EightBits(quantise(model, kept, ranges, shifts), len(kept), in_float)
        if is_good(result.model):
            break
        count *= 2
    return result
