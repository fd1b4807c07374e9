"""Running a tagger's network: in ONNX Runtime where it was exported, in torch where a device calls for it."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tagloom.data.reading import Stop
from tagloom.errors import MissingExtraError, TaggerError
from tagloom.predict.insides import Insides
from tagloom.tagger.onnx_runner import OnnxNetwork
from tagloom.tagger.spec import ONNX_FILE, WEIGHTS_FILE, TaggerSpec
from tagloom.wording import listed

PictureNetwork: TypeAlias = Callable[[NDArray[np.uint8]], NDArray[np.float32]]
"""From pictures (B, H, W, 3) to logits (B, N)."""
WordNetwork: TypeAlias = Callable[[NDArray[np.uint8], NDArray[np.float32]], NDArray[np.float32]]
"""From pictures (B, H, W, 3) and words (K, g, d_w) to logits (B, K · g)."""


class Engine(NamedTuple):
    """A network that is ready to run.

    Attributes:
        name: What runs it. ONNX Runtime uses one core per call, so call it in as many threads as there are cores;
            torch uses all cores, or another device, so call it with batches.
        run: The network. Call it as a `PictureNetwork`, or as a `WordNetwork` if it has word queries.
        insides: The same network, to look into it.
        stop: Makes the calls of some threads end soon, where that is possible.
    """

    name: Literal["onnx", "torch"]
    run: Callable[..., NDArray[np.float32]]
    insides: Insides
    stop: Stop = lambda threads: None


def open_engine(folder: Path, spec: TaggerSpec, device: str = "auto", *, ours: bool = False) -> Engine:
    """Load the network of a tagger folder.

    Args:
        folder: The tagger folder.
        spec: What its `tagger.json` says.
        device: "auto" runs an exported network in ONNX Runtime unless torch has a GPU; "cpu" runs an exported network
            in ONNX Runtime; anything else runs in torch.
        ours: Whether the folder is one that ships with Tagloom and was checked; see `OnnxNetwork`.
    """
    exported = folder / ONNX_FILE
    without_torch = device == "auto" and not (_has_gpu() and (folder / WEIGHTS_FILE).is_file())
    if exported.is_file() and (device == "cpu" or without_torch):
        network = OnnxNetwork(exported, threads=1, ours=ours, first_only=True)
        insides = Insides(folder, spec, "cpu", network)
        return Engine("onnx", _onnx_network(network, exported), insides, network.stop)
    if find_spec("torch") is None:
        why = f"device {device}" if exported.is_file() else f"{folder} has no {ONNX_FILE}; running it from its weights"
        raise MissingExtraError(why, "train")
    insides = Insides(folder, spec, device)
    return Engine("torch", _torch_network(insides), insides)


def _onnx_network(network: OnnxNetwork, path: Path) -> Callable[..., NDArray[np.float32]]:
    def run(pictures: NDArray[np.uint8], *words: NDArray[np.float32]) -> NDArray[np.float32]:
        outputs = network(pictures, *words, fetch=network.outputs[:1])
        if outputs[0].ndim != 2 or (words and outputs[0].shape[1] != words[0][:, :, 0].size):
            raise TaggerError(
                f"{path}: gives outputs of shape {listed([output.shape for output in outputs])} for {len(pictures)} "
                "pictures; expected one logit per picture and label. Take it and tagger.json from the same training."
            )
        return outputs[0]

    return run


def _torch_network(insides: Insides) -> Callable[..., NDArray[np.float32]]:
    import torch

    network, device = insides.torch_network()

    @torch.inference_mode()
    def run(*inputs: NDArray[np.generic]) -> NDArray[np.float32]:
        tensors = [torch.from_numpy(array).to(device) for array in inputs]
        logits: NDArray[np.float32] = network(*tensors).float().cpu().numpy()
        return logits

    return run


def _has_gpu() -> bool:
    """Look for a GPU that torch could use, without the seconds that importing torch takes."""
    return find_spec("torch") is not None and Path("/dev/nvidiactl").exists()
