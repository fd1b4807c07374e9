"""How much of its intermediate stages a layover tagger mixes in for each image (the paper's α)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tagloom.data.packed.images import ImageFile
from tagloom.errors import ImageError
from tagloom.explain.pictures import summaries
from tagloom.progress import Progress, no_progress
from tagloom.tagger.spec import read_spec


def mixing_amounts(
    folder: Path,
    pictures: Sequence[ImageFile],
    *,
    device: str = "auto",
    progress: Progress = no_progress,
) -> tuple[tuple[int, ...], NDArray[np.float32]] | None:
    """Give the stages that a tagger mixes in and α of every image, or None if its head has no α per image.

    Args:
        folder: A tagger folder.
        pictures: Image files.
        device: Where to run the network.
        progress: Called with images done and images to do.

    Returns:
        Stage numbers (S), and α (images, S), NaN for images that cannot be read.
    """
    import torch

    from tagloom.models.network import load_network, pick_device

    spec = read_spec(folder)
    if spec.head != "layover":
        return None
    chosen = pick_device(device)
    network = load_network(folder, spec).to(chosen)
    head = network.head
    if not head.mixes_per_image:
        return None
    amounts = np.full((len(pictures), len(head.stages)), np.nan, np.float32)
    broken: list[ImageError] = []
    for indices, summary in summaries(network, spec, pictures, chosen, broken, progress):
        with torch.inference_mode():
            amounts[indices] = head.mixing_amounts(*summary).cpu().numpy()
    return head.stages, amounts
