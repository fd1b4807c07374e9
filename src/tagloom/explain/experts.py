"""Which experts each label uses: the gates of hybrid sharing, averaged over images (HSQ, Figure 5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom.data.packed.images import ImageFile
from tagloom.errors import ImageError, TaggerError
from tagloom.explain.pictures import summaries
from tagloom.progress import Progress, no_progress
from tagloom.tagger.spec import read_spec


@dataclass(frozen=True)
class ExpertLoad:
    """How much weight the labels give to each expert.

    Attributes:
        classes: Label names.
        experts: Names of the experts: the shared ones, then a label's own.
        layers: The weights of each layer, (classes, experts); every row sums to 1.
        pictures: How many images the weights are the mean of.
        broken: Images that could not be read and are not counted.
    """

    classes: tuple[str, ...]
    experts: tuple[str, ...]
    layers: list[NDArray[np.float32]]
    pictures: int
    broken: list[ImageError]

    def effective_experts(self, layer: int) -> NDArray[np.float64]:
        """Compute how many experts each label uses, as exp(entropy): 1 for a single expert, all for equal weights."""
        weights = np.clip(self.layers[layer], 1e-12, 1)
        return np.asarray(np.exp(-(weights * np.log(weights)).sum(axis=1)), np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain data."""
        return {
            "classes": list(self.classes),
            "experts": list(self.experts),
            "pictures": self.pictures,
            "layers": [
                {
                    "weights": [[round(float(value), 6) for value in row] for row in layer],
                    "average": [round(float(value), 6) for value in layer.mean(axis=0)],
                }
                for layer in self.layers
            ],
        }


def expert_load(
    folder: Path,
    pictures: Sequence[ImageFile],
    *,
    device: str = "auto",
    progress: Progress = no_progress,
) -> ExpertLoad:
    """Average the gate weights of a tagger over images.

    Args:
        folder: A tagger folder whose head has the hybrid-sharing readout.
        pictures: Image files; one is enough.
        device: Where to run the network.
        progress: Called with images done and images to do.
    """
    import torch

    from tagloom.models.network import load_network, pick_device

    spec = read_spec(folder)
    chosen = pick_device(device)
    network = load_network(folder, spec).to(chosen)
    head = network.head
    shared = head.shared_experts
    if shared is None:
        raise TaggerError(
            f"{folder}: its head, {spec.head}, has no experts. Train a tagger that has: --set head.name=hsq, or "
            "--set head.options.readout=hybrid-sharing on any query head."
        )
    total: list[torch.Tensor] = []
    done = 0
    broken: list[ImageError] = []
    for indices, summary in summaries(network, spec, pictures, chosen, broken, progress):
        with torch.inference_mode():
            gates = [weights.sum(dim=0).cpu() for weights in head.gate_weights(*summary)]
        total = [before + more for before, more in zip(total, gates, strict=True)] if total else gates
        done += len(indices)
    own = total[0].shape[1] - shared
    experts = [f"shared {number + 1}" for number in range(shared)]
    experts += ["own"] if own == 1 else [f"own {number + 1}" for number in range(own)]
    # The gates give a label's own experts first; the paper's figure, and so ours, has them last.
    layers = [torch.cat([weights[:, own:], weights[:, :own]], dim=1).div(done).numpy() for weights in total]
    return ExpertLoad(tuple(spec.classes), tuple(experts), layers, done, broken)
