"""A tagger's network: a backbone and a head, fed with plain pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tagloom.errors import TaggerError
from tagloom.files import whole_file
from tagloom.models.backbone import Backbone, create_backbone
from tagloom.models.heads import Head, WordVectors, create_head, needs_words
from tagloom.models.onnx_export import WordInput, export_onnx
from tagloom.models.weights import check_fits, tensor_shapes
from tagloom.tagger.outputs import EVIDENCE, INSIDES
from tagloom.tagger.spec import ONNX_FILE, WEIGHTS_FILE, WORDS_FILE, TaggerSpec
from tagloom.words.vector_files import read_vectors


class TaggerNetwork(nn.Module):
    """Pictures (B, H, W, 3) to logits (B, N), or to those of any words if the head takes them."""

    def __init__(self, backbone: Backbone, head: Head) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    def forward(self, pictures: Tensor, words: Tensor | None = None) -> Tensor:
        """Map uint8 pictures (B, H, W, 3) to logits (B, N), or with words (K, g, d_w) to logits (B, K · g) of these."""
        return self.head.classify(*self.summarise(pictures), words=words)

    def kept(self, pictures: Tensor) -> tuple[Tensor, ...]:
        """Run what training never changes on pictures (B, H, W, 3): what a feature cache stores, (B, …) each.

        With a frozen backbone that is the head's summary, with a trained tail what the backbone gives below it.
        """
        if self.backbone.cut is None:
            return self.summarise(pictures)
        return (self.backbone.forward_prefix(pictures.permute(0, 3, 1, 2)),)

    @property
    def kept_names(self) -> tuple[str, ...]:
        """Say what `kept` gives: names that heads with the same cached features share."""
        return self.head.summary if self.backbone.cut is None else (f"output of {self.backbone.cut.place}",)

    @property
    def kept_channels(self) -> int:
        """The axis of the channels in a map that is kept."""
        return 1 if self.backbone.cut is None else self.backbone.cut.channels

    def summary_of_kept(self, *kept: Tensor) -> tuple[Tensor, ...]:
        """Give the head's summary from what is kept."""
        if self.backbone.cut is None:
            return kept
        features, stages = self.backbone.forward_tail(kept[0], self.head.stages)
        return self.head.summarise(features, *stages)

    def classify_kept(self, *kept: Tensor, words: Tensor | None = None) -> Tensor:
        """Map what is kept to logits (B, N), or with words (K, g, d_w) to logits (B, K · g) of these."""
        return self.head.classify(*self.summary_of_kept(*kept), words=words)

    def word_input(self) -> WordInput | None:
        """Say what an exported copy takes besides pictures; None if the head knows its own classes only."""
        words = self.head.class_words()
        if words is None or not self.head.takes_words:
            return None
        return WordInput(words.vectors, free=words.fixed_queries is None)

    def summarise(self, pictures: Tensor) -> tuple[Tensor, ...]:
        """Run the backbone and the head's parameter-free first step."""
        features, stages = self.maps(pictures, self.head.stages)
        return self.head.summarise(features, *stages)

    def maps(self, pictures: Tensor, stages: Sequence[int]) -> tuple[Tensor, list[Tensor]]:
        """Run the backbone: gives its last map (B, C, h, w), and that of each stage (B, C_s, h_s, w_s)."""
        # A permuted (B, H, W, 3) tensor is a channels-last (B, 3, H, W) one: nothing is copied.
        return self.backbone.forward_stages(pictures.permute(0, 3, 1, 2), stages)


class OpenNetwork(nn.Module):
    """A tagger's network with its insides as further outputs: what `model.onnx` holds.

    Attributes:
        outputs: Names of the outputs, of `tagger.outputs.INSIDES`.
    """

    def __init__(self, network: TaggerNetwork) -> None:
        super().__init__()
        self.network = network
        self.outputs = INSIDES if network.head.shows_evidence else tuple(name for name in INSIDES if name != EVIDENCE)

    def forward(self, pictures: Tensor, words: Tensor | None = None) -> tuple[Tensor, ...]:
        """Map pictures (B, H, W, 3) to logits (B, N), evidence (B, N, h, w) if there is any, and the last map."""
        head = self.network.head
        features, stages = self.network.maps(pictures, head.stages)
        logits = head.classify(*head.summarise(features, *stages), words=words)
        if not head.shows_evidence:
            return logits, features
        return logits, head.evidence(features, *stages, words=words), features


class Extractor(nn.Module):
    """Everything before what is trained, as a module for export and extraction."""

    def __init__(self, network: TaggerNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, pictures: Tensor) -> tuple[Tensor, ...]:
        """Map uint8 pictures (B, H, W, 3) to what a feature cache stores."""
        return self.network.kept(pictures)


def build_network(
    *,
    backbone: str,
    weights: str,
    head: str,
    head_options: dict[str, Any],
    classes: int,
    size: int,
    frozen: bool,
    drop_path: float = 0.0,
    normalise: bool = True,
    depths: Sequence[int] = (),
    word_vectors: WordVectors | None = None,
) -> TaggerNetwork:
    """Make a backbone and a head that fits it, from their names."""
    body = create_backbone(
        backbone, weights, size=size, frozen=frozen, drop_path=drop_path, normalise=normalise, depths=depths
    )
    top = create_head(
        head,
        in_channels=body.out_channels,
        classes=classes,
        stage_channels=body.stage_channels,
        word_vectors=word_vectors,
        **head_options,
    )
    return TaggerNetwork(body, top)


def save_weights(network: TaggerNetwork, folder: Path) -> None:
    """Write all tensors of a tagger to its folder, and never leave a half-written file."""
    from safetensors.torch import save

    tensors = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    with whole_file(folder / WEIGHTS_FILE) as partial:
        partial.write_bytes(save(tensors))  # its save_file would make the file unreadable for other users


def export_network(network: TaggerNetwork, path: Path, *, size: int) -> float:
    """Write a tagger's network and its insides as ONNX; see `export_onnx`."""
    opened = OpenNetwork(network)
    return export_onnx(opened, path, size=size, words=network.word_input(), outputs=opened.outputs)


def load_network(folder: Path, spec: TaggerSpec) -> TaggerNetwork:
    """Rebuild a tagger's network from its folder, in eval mode."""
    from safetensors.torch import load_file

    path = folder / WEIGHTS_FILE
    if not path.is_file():
        if (folder / ONNX_FILE).is_file():
            raise TaggerError(
                f"{folder}: was exported, without the {WEIGHTS_FILE} that torch needs. Use --device cpu, or the run "
                "that it was exported from."
            )
        raise TaggerError(f"{folder}: has no {WEIGHTS_FILE}. Was the training finished? Try: tagloom train --resume")
    try:
        with_words = needs_words(spec.head, spec.head_options)
        words = torch.from_numpy(read_vectors(folder / WORDS_FILE).vectors) if with_words else None
        _check_described(spec, words, path)
        network = _described(spec, words)
        network.load_state_dict(load_file(path))
    except Exception as error:  # a stranger's folder can fail in any way, and the cause is always the same
        raise TaggerError(f"{path}: does not fit the tagger that tagger.json describes: {error}") from error
    return network.eval()


def _check_described(spec: TaggerSpec, words: Tensor | None, path: Path) -> None:
    """Compare the network that a folder describes with the header of its weights before it takes any memory."""
    shapes = tensor_shapes(path)
    try:
        with torch.device("meta"):
            network = _described(spec, words)
    except RuntimeError as error:
        if "meta tensor" not in str(error):
            raise
        return  # a network that asks for values while it is built, as some did before timm 1.0.20
    check_fits(network, shapes)


def _described(spec: TaggerSpec, words: Tensor | None) -> TaggerNetwork:
    """Build the network that a tagger folder describes, without its weights."""
    return build_network(
        backbone=spec.backbone,
        weights="none",
        head=spec.head,
        head_options=spec.head_options,
        classes=len(spec.classes),
        size=spec.preprocess.size,
        frozen=False,
        depths=spec.backbone_depths,
        word_vectors=words,
    )


def count_parameters(module: nn.Module) -> tuple[int, int]:
    """Count all parameters and the trainable ones."""
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in module.parameters()]
    return sum(size for size, _ in sizes), sum(size for size, trainable in sizes if trainable)


def pick_device(wanted: str = "auto") -> torch.device:
    """Choose where to compute: "auto" takes a GPU if there is one, then Apple's, then the CPU."""
    if wanted != "auto":
        try:
            return torch.zeros(1, device=wanted).device
        except (RuntimeError, AssertionError) as error:  # an unknown name, or a device that is not there
            raise TaggerError(f"device '{wanted}' cannot be used here ({error}). Use auto or cpu.") from error
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")
