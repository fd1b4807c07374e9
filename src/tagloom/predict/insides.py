"""Looking into a tagger's network: where its logits come from, and what its maps show."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import MissingExtraError, TaggerError
from tagloom.tagger.onnx_runner import OnnxNetwork
from tagloom.tagger.outputs import EVIDENCE, FEATURES
from tagloom.tagger.spec import WEIGHTS_FILE, TaggerSpec

if TYPE_CHECKING:
    import torch

    from tagloom.models.network import TaggerNetwork

Maps = NDArray[np.float32]


class Insides:
    """A network to look into: in ONNX Runtime where its file has the outputs, otherwise in torch.

    Args:
        folder: The tagger folder.
        spec: What its `tagger.json` says.
        device: Where torch computes, if it must.
        exported: The exported network; None to use torch.
    """

    def __init__(self, folder: Path, spec: TaggerSpec, device: str, exported: OnnxNetwork | None = None) -> None:
        self._folder = folder
        self._spec = spec
        self._device = device
        self._exported = exported
        self._loaded: tuple[TaggerNetwork, torch.device] | None = None

    def evidence(self, pictures: NDArray[np.uint8], *words: NDArray[np.float32]) -> Maps:
        """Say how much of each logit came from each position: (B, N, h, w), or (B, K · g, h, w) with words (K, g, d_w).

        Raises:
            TaggerError: If the network does not show it; the message names the command that helps.
        """
        if (found := self._exported_output(EVIDENCE, pictures, words)) is not None:
            return found
        network, device = self.torch_network()
        import torch

        tensors = [torch.from_numpy(array).to(device) for array in (pictures, *words)]
        with torch.inference_mode():
            features, stages = network.maps(tensors[0], network.head.stages)
            evidence = network.head.evidence(features, *stages, words=tensors[1] if words else None)
        return _to_array(evidence)

    def features(self, pictures: NDArray[np.uint8], *words: NDArray[np.float32]) -> Maps:
        """Give the last feature map (B, C, h, w). A network with word queries takes words here too; any will do."""
        if (found := self._exported_output(FEATURES, pictures, words)) is not None:
            return found
        return self.stage_maps(pictures, ())[0]

    def stage_maps(self, pictures: NDArray[np.uint8], stages: Sequence[int]) -> list[Maps]:
        """Give the last feature map (B, C, h, w) and that of each stage (B, C_s, h_s, w_s), with torch."""
        network, device = self.torch_network()
        import torch

        with torch.inference_mode():
            features, maps = network.maps(torch.from_numpy(pictures).to(device), stages)
        return [_to_array(tensor) for tensor in (features, *maps)]

    def gradient_maps(
        self, pictures: NDArray[np.uint8], columns: Sequence[int], stage: int | None, words: NDArray[np.float32] | None
    ) -> Maps:
        """Give Grad-CAM++ maps (B, labels, h, w) of the logits of these columns, with torch."""
        network, device = self.torch_network()
        import torch

        from tagloom.models.grad_cam import grad_cam_plus_plus

        asked = None if words is None else torch.from_numpy(words).to(device)
        pixels = torch.from_numpy(pictures).to(device)
        return _to_array(grad_cam_plus_plus(network, pixels, columns, words=asked, stage=stage))

    def torch_network(self) -> "tuple[TaggerNetwork, torch.device]":
        """Give the network in torch, loaded once, and the device that it is on."""
        if self._loaded is None:
            if find_spec("torch") is None:
                raise MissingExtraError("this way of looking into a tagger", "train")
            if self._exported is not None and not (self._folder / WEIGHTS_FILE).is_file():
                raise TaggerError(
                    f"{self._folder}: stages and grad-cam++ need the weights ({WEIGHTS_FILE}), and an exported tagger "
                    "has none. Name the run that it was exported from, or leave out --stages and --method."
                )
            from tagloom.models.network import load_network, pick_device

            device = pick_device(self._device)
            self._loaded = load_network(self._folder, self._spec).to(device), device
        return self._loaded

    def _exported_output(
        self, name: str, pictures: NDArray[np.uint8], words: Sequence[NDArray[np.float32]]
    ) -> Maps | None:
        """Run the exported network; None if torch can and must do it."""
        if self._exported is None:
            return None
        if name in self._exported.outputs:
            found = self._exported(pictures, *words, fetch=[name])[0]
            if found.ndim != 4:
                raise TaggerError(
                    f"{self._folder}: its {name} have the shape {found.shape}; expected a map per label or channel. "
                    "Export it again: tagloom export RUN --out NEW."
                )
            return found
        if find_spec("torch") is None or not (self._folder / WEIGHTS_FILE).is_file():
            raise TaggerError(
                f"{self._folder}: its model.onnx does not say where labels come from; it was exported by an older "
                f"Tagloom, or its head cannot say it. Export it again: tagloom export {self._folder} --out NEW"
            )
        return None


def _to_array(tensor: "torch.Tensor") -> Maps:
    array: Maps = tensor.float().cpu().numpy()
    return array
