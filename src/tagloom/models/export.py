"""Writing a network as ONNX and proving that the copy computes the same."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

from tagloom.errors import TaggerError
from tagloom.inference.onnx import OnnxNetwork

TOLERANCE = 1e-4
CHECKED_BATCHES = (1, 2, 7)


def export_onnx(network: nn.Module, path: Path, *, size: int) -> float:
    """Write a network of pictures as ONNX with a free batch size, and compare the two.

    Args:
        network: Takes uint8 (B, size, size, 3) and gives a tensor or a tuple of tensors.
        path: The file to write; it appears only when the comparison held.
        size: Side of the pictures.

    Returns:
        The largest difference found, relative to the largest output.

    Raises:
        TaggerError: If the network has no ONNX form or its copy computes something else; no file is left then.
    """
    network = network.cpu().eval()
    partial = path.with_suffix(".partial.onnx")
    try:
        _write(network, partial, size)
        worst = _compare(network, partial, size)
        if not worst <= TOLERANCE:  # so written that NaN is refused too
            raise TaggerError(
                f"the ONNX copy differs from torch by {worst:.1e} (allowed {TOLERANCE:.0e}); it was not kept."
            )
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return worst


def _write(network: nn.Module, path: Path, size: int) -> None:
    example = torch.zeros(2, size, size, 3, dtype=torch.uint8)
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                network,
                (example,),
                dynamo=True,
                input_names=["pictures"],
                dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
                verbose=False,
            )
            if program is None:
                raise RuntimeError("the exporter gave nothing")
            program.save(str(path), external_data=False)
    except Exception as error:  # the exporter fails in as many ways as there are networks
        first_line = str(error).strip().partition("\n")[0] or type(error).__name__
        raise TaggerError(f"the network could not be exported to ONNX ({first_line}).") from error


def _compare(network: nn.Module, path: Path, size: int) -> float:
    """Run both on random pictures at several batch sizes and give the largest relative difference."""
    exported = OnnxNetwork(path)
    pictures = np.random.default_rng(0).integers(0, 256, (max(CHECKED_BATCHES), size, size, 3), dtype=np.uint8)
    differences = []
    for batch in CHECKED_BATCHES:
        with torch.no_grad():
            outputs = network(torch.from_numpy(pictures[:batch]))
        tensors = outputs if isinstance(outputs, tuple) else (outputs,)
        for ours, theirs in zip(tensors, exported(pictures[:batch]), strict=True):
            scale = max(1.0, float(ours.abs().max()))
            differences.append(np.abs(ours.numpy() - theirs).max() / scale)
    return float(np.max(differences))  # NaN if any is


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hold back the exporter's own chatter, which speaks of its internals."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
