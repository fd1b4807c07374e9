"""Writing a network as ONNX, and proving that the copy computes the same."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tagloom.errors import TaggerError
from tagloom.files import whole_file
from tagloom.tagger.onnx_check import check_onnx
from tagloom.tagger.onnx_runner import OnnxNetwork
from tagloom.tagger.outputs import EVIDENCE
from tagloom.wording import first_line

TOLERANCE = 1e-4
CHECKED_BATCHES = (1, 2, 7)
MAX_FOLDED = 2**28  # values of a constant that is computed when the file is written


class WordInput(NamedTuple):
    """What a network with word queries takes besides pictures, as the second input of its ONNX copy.

    Attributes:
        example: Words (K, g, d_w).
        free: Whether K may change; g and d_w may not.
    """

    example: Tensor
    free: bool


def export_onnx(
    network: nn.Module, path: Path, *, size: int, words: WordInput | None = None, outputs: Sequence[str] | None = None
) -> float:
    """Write a network as ONNX with a free batch size, and compare the two.

    Args:
        network: Maps uint8 (B, size, size, 3), and words if they are given here, to a tensor or a tuple of tensors.
        path: The file to write; it appears only if the comparison succeeds.
        size: Side of the pictures.
        words: An example of the words that the network takes; None if it takes pictures only.
        outputs: Names of its outputs; None if they do not matter.

    Returns:
        The largest difference found, relative to the largest output.

    Raises:
        TaggerError: If the network has no ONNX form, or its copy computes something else; then no file is left.
    """
    network = network.cpu().eval()
    with whole_file(path) as partial:
        _write(network, partial, size, words, outputs)
        check_onnx(partial)  # what would be refused later is not written
        worst = _compare(network, partial, size, words)
        if not worst <= TOLERANCE:  # not ">", which would let NaN pass
            raise TaggerError(
                f"the ONNX copy differs from torch by {worst:.1e} (allowed {TOLERANCE:.0e}), so it was discarded."
            )
    return worst


def _write(network: nn.Module, path: Path, size: int, words: WordInput | None, outputs: Sequence[str] | None) -> None:
    example: tuple[Tensor, ...] = (torch.zeros(2, size, size, 3, dtype=torch.uint8),)
    free: tuple[object, ...] = ({0: torch.export.Dim("batch", min=1)},)
    if words is not None:
        # Doubled, since the exporter treats a size of 1 as constant.
        shown = words.example.cpu()
        example = (*example, torch.cat([shown, shown]) if words.free else shown)
        free = (*free, {0: torch.export.Dim("queries", min=1)} if words.free else None)
    write_graph(network, path, example, ["pictures", "words"][: len(example)], outputs, free=free)


def write_graph(
    network: nn.Module,
    path: Path,
    example: tuple[Tensor, ...],
    inputs: Sequence[str],
    outputs: Sequence[str] | None,
    *,
    free: tuple[object, ...] | None = None,
    opset: int | None = None,
    fold: bool = True,
) -> None:
    """Write a network as ONNX, unproved.

    Args:
        network: In eval mode.
        path: The file.
        example: What it takes.
        inputs: Names of its inputs.
        outputs: Names of its outputs; None if they do not matter.
        free: Which sizes of each input may change; None for the first.
        opset: Version of ONNX's operators; None for the exporter's.
        fold: Whether constants are computed now; otherwise all weights stay what they are, under their names.
    """
    batch = torch.export.Dim("batch", min=1)
    try:
        from onnxscript.optimizer import fold_constants

        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                network,
                example,
                dynamo=True,
                input_names=inputs,
                output_names=outputs,
                opset_version=opset,
                dynamic_shapes=free or tuple({0: batch} for _ in example),
                verbose=False,
            )
            if program is None:
                raise RuntimeError("the exporter gave nothing")
            if fold:  # weights times scales, and all of the query side: a reader may not compute it while it loads
                fold_constants(program.model, input_size_limit=MAX_FOLDED, output_size_limit=MAX_FOLDED)
            for node in program.model.graph.all_nodes():
                node.metadata_props.clear()  # where each comes from: paths of this machine, and megabytes of them
            program.save(str(path), external_data=False)
    except Exception as error:  # the exporter can fail in any way
        raise TaggerError(f"the network could not be exported to ONNX ({first_line(error)}).") from error


def _compare(network: nn.Module, path: Path, size: int, words: WordInput | None) -> float:
    """Run both on random pictures, and words, at several batch sizes and give the largest relative difference."""
    exported = OnnxNetwork(path, ours=True)
    pictures = np.random.default_rng(0).integers(0, 256, (max(CHECKED_BATCHES), size, size, 3), dtype=np.uint8)
    differences = []
    for batch in CHECKED_BATCHES:
        asked = () if words is None else (_some_words(words, batch),)
        with torch.no_grad():
            outputs = network(torch.from_numpy(pictures[:batch]), *asked)
        tensors = outputs if isinstance(outputs, tuple) else (outputs,)
        theirs = exported(pictures[:batch], *(value.numpy() for value in asked))
        for name, our, their in zip(exported.outputs, tensors, theirs, strict=True):
            # Evidence depends on the signs of ReLUs. One that is nearly zero may differ, and changes a map or two.
            typical = np.mean if name == EVIDENCE else np.max
            differences.append(typical(np.abs(our.numpy() - their)) / max(1.0, float(our.abs().max())))
    return float(np.max(differences))  # NaN if any is


def _some_words(words: WordInput, queries: int) -> Tensor:
    """Draw words for this many queries, or for the fixed number of them."""
    fixed, *shape = words.example.shape
    return torch.randn(queries if words.free else fixed, *shape, generator=torch.Generator().manual_seed(queries))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's messages about its internals."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
