"""Writing a network as a program of `torch.export`, and proving that the file computes the same."""

from pathlib import Path

import torch
from torch import Tensor, nn

from tagloom.errors import TaggerError
from tagloom.files import whole_file
from tagloom.models.onnx_export import CHECKED_BATCHES, TOLERANCE
from tagloom.wording import first_line


def export_program(network: nn.Module, path: Path, *, size: int, words: Tensor | None = None) -> float:
    """Write a network with a free batch size as a .pt2 file, read it again, and compare the two.

    `torch.export.load(path).module()` then runs it without Tagloom.

    Args:
        network: Maps uint8 (B, size, size, 3), and words if they are given here, to logits.
        path: The file to write; it appears only if the comparison succeeds.
        size: Side of the pictures.
        words: The words that the network takes, (K, g, d_w), in this number; None if it takes pictures only.

    Returns:
        The largest difference found, relative to the largest logit.

    Raises:
        TaggerError: If the network has no such form, or its copy computes something else; then no file is left.
    """
    network = network.cpu().eval()
    further = () if words is None else (words.cpu(),)
    pictures = torch.randint(
        0, 256, (max(CHECKED_BATCHES), size, size, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    with whole_file(path) as partial, torch.no_grad():
        try:
            free = ({0: torch.export.Dim("batch", min=1)}, *(None for _ in further))
            program = torch.export.export(network, (pictures[:2], *further), dynamic_shapes=free)
            with partial.open("wb") as file:  # an open file, since torch would insist on the suffix of a path
                torch.export.save(program, file)
            with partial.open("rb") as file:
                copied = torch.export.load(file).module()
            worst = 0.0
            for batch in CHECKED_BATCHES:
                ours, theirs = (run(pictures[:batch], *further) for run in (network, copied))
                worst = max(worst, float((ours - theirs).abs().max() / max(1.0, float(ours.abs().max()))))
        except Exception as error:  # the exporter can fail in any way
            raise TaggerError(f"the network could not be exported by torch.export ({first_line(error)}).") from error
        if not worst <= TOLERANCE:
            raise TaggerError(
                f"the copy of torch.export differs from the network by {worst:.1e} (allowed {TOLERANCE:.0e}), so it "
                "was discarded."
            )
    return worst
