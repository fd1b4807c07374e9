"""Any timm model as a backbone: one form of features, its own normalisation, freezing that lasts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import timm
import torch
from torch import Tensor, nn

from tagloom.errors import TaggerError, unknown_name
from tagloom.hub import HUB_PREFIX, split_hub_name
from tagloom.models.bundled import BUNDLED_BACKBONE, PACKAGES, load_bundled
from tagloom.models.feature_maps import feature_maps, stage_channels
from tagloom.models.tail import Cut, cut_after, run_prefix, run_tail
from tagloom.models.weights import load_file
from tagloom.wording import listed

Statistics = Literal["frozen", "trained"]

# The families of networks whose depths a recipe may choose, and what timm calls them there.
DEPTH_OPTIONS = {"tresnet": "layers", "resnet": "layers", "convnext": "depths"}


class Backbone(nn.Module):
    """From pixels to a feature map, whatever the network inside.

    It does the normalisation that its weights need, so callers pass plain pixel values. Token networks give their patch
    tokens as a map; prefix tokens (class, registers) are left out.

    Attributes:
        out_channels: Channels C of the feature map.
        stage_channels: Channels of each intermediate stage, in the network's order; stage 1 is the first.
        frozen: While true, the network gets no gradient and stays in eval mode through `.train()`, apart from a tail.
        cut: Where the tail begins that is trained although the rest is frozen; None for no tail.
        statistics: Whether the running statistics of the tail's batch norms are trained too.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, net: nn.Module, name: str, mean: Sequence[float], deviation: Sequence[float]) -> None:
        super().__init__()
        self.net = net
        self.name = name
        self.out_channels: int = net.num_features  # type: ignore[assignment]
        self.stage_channels = stage_channels(net)
        self.frozen = False
        self.cut: Cut | None = None
        self.statistics: Statistics = "trained"
        # Pixel values run from 0 to 255, so the constants do too.
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1) * 255)
        self.register_buffer("deviation", torch.tensor(deviation).view(1, 3, 1, 1) * 255)

    def forward(self, pixels: Tensor) -> Tensor:
        """Give the last feature map.

        Args:
            pixels: (B, 3, H, W), uint8 or float, values from 0 to 255.

        Returns:
            (B, C, h, w) features before any pooling.
        """
        return self.forward_stages(pixels, ())[0]

    def forward_stages(self, pixels: Tensor, stages: Sequence[int]) -> tuple[Tensor, list[Tensor]]:
        """Give the last feature map and the wanted intermediate ones.

        Args:
            pixels: (B, 3, H, W), values from 0 to 255.
            stages: Stages by number, 1 the earliest, at most `len(stage_channels)`.

        Returns:
            The last map (B, C, h, w), and a map (B, C_s, h_s, w_s) for each wanted stage.
        """
        self._check_stages(stages)
        with torch.set_grad_enabled(torch.is_grad_enabled() and (not self.frozen or self.cut is not None)):
            return feature_maps(self.net, self._normalised(pixels), stages)

    def forward_prefix(self, pixels: Tensor) -> Tensor:
        """Run the frozen part below a tail: pixels (B, 3, H, W) to (B, …) in the network's own layout."""
        with torch.no_grad():
            return run_prefix(self.net, self._tail_cut(), self._normalised(pixels))

    def forward_tail(self, kept: Tensor, stages: Sequence[int]) -> tuple[Tensor, list[Tensor]]:
        """Run the tail on what `forward_prefix` gave; gives what `forward_stages` gives."""
        return run_tail(self.net, self._tail_cut(), kept, stages)

    def frozen_tensors(self) -> dict[str, Tensor]:
        """Give what cached features depend on: all tensors, or with a tail those below it."""
        everything = self.state_dict()
        if self.cut is None:
            return everything
        below = {f"net.{name}" for name in self.cut.prefix_tensors(self.net)}
        return {name: value for name, value in everything.items() if name in below or not name.startswith("net.")}

    def freeze(self, frozen: bool = True) -> "Backbone":
        """Stop the training of the network, or allow it again; a frozen one stays in eval mode."""
        self.frozen, self.cut = frozen, None
        self.net.requires_grad_(not frozen)
        return self.train(self.training)

    def train_from(
        self, where: int | str, *, size: int, stages: Sequence[int] = (), statistics: Statistics = "frozen"
    ) -> "Backbone":
        """Freeze the network up to a stage, that included, and allow the training of the tail that follows.

        Args:
            where: A stage by number, 1 the earliest, or a module of the network by name.
            size: Side of the pictures.
            stages: The stages that the head reads.
            statistics: Whether the running statistics of the tail's batch norms stay or are trained.
        """
        self._check_stages(stages)
        self.freeze()
        self.cut, self.statistics = cut_after(self.net, where, size, stages), statistics
        for parameter in self.cut.tail_parameters(self.net):
            parameter.requires_grad_(True)
        return self.train(self.training)

    def train(self, mode: bool = True) -> "Backbone":
        """Set training mode, except for what is frozen: its running statistics must not change."""
        super().train(mode)
        if self.frozen:
            self.net.train(False)
        if self.cut is not None:
            for name in self.cut.after:
                for module in self.net.get_submodule(name).modules():
                    fixed = self.statistics == "frozen" and isinstance(module, nn.modules.batchnorm._BatchNorm)
                    module.training = mode and not fixed
        return self

    def _tail_cut(self) -> Cut:
        if self.cut is None:
            raise TaggerError(f"backbone '{self.name}' has no trained tail: call train_from first.")
        return self.cut

    def _normalised(self, pixels: Tensor) -> Tensor:
        return (pixels.to(self.mean.dtype) - self.mean) / self.deviation

    def _check_stages(self, stages: Sequence[int]) -> None:
        if not all(1 <= stage <= len(self.stage_channels) for stage in stages):
            raise TaggerError(
                f"backbone '{self.name}' has the stages 1 to {len(self.stage_channels)}, not {list(stages)}."
            )


def create_backbone(
    name: str = BUNDLED_BACKBONE,
    weights: str = "bundled",
    *,
    size: int | None = None,
    frozen: bool = False,
    drop_path: float = 0.0,
    normalise: bool = True,
    depths: Sequence[int] = (),
) -> Backbone:
    """Make a backbone from any timm model.

    Args:
        name: A timm model name, for example "tf_efficientnet_lite0", "resnet50" or "vit_base_patch16_224".
        weights: "bundled" (EfficientNet-Lite0's package, works offline), "hub" (timm's pretrained weights, downloaded
            once), "hf-hub:owner/name@revision" (those of a repository on the Hugging Face hub; without a revision, its
            newest), "none" (random), or the path of a .safetensors or `weights_only` torch file.
        size: Image side in pixels, for networks that are built for one size (ViT, Swin).
        frozen: Whether the weights of the network stay fixed.
        drop_path: Stochastic depth, for networks that have it: the chance that training skips the last block.
        normalise: Whether pixels are normalised with the mean and deviation of the weights, or left at 0 to 1.
        depths: Blocks of each stage, for networks of `DEPTH_OPTIONS`; by default the network's own.

    >>> create_backbone(weights="none").out_channels
    1280
    """
    if not timm.is_model(name):
        near = timm.list_models(f"*{name.split('.')[0][:10]}*")[:8] or timm.list_models("*efficientnet*")[:8]
        raise TaggerError(unknown_name("backbone", name, near) + " … (any name of timm.list_models())")
    options: dict[str, Any] = {"num_classes": 0}
    if weights.startswith(HUB_PREFIX):
        repository, revision = split_hub_name(weights)
        named = repository if revision is None else f"{repository}@{revision}"
        options["pretrained_cfg_overlay"] = {"source": "hf-hub", "hf_hub_id": named}
    try:
        cfg = timm.get_pretrained_cfg(name)
    except RuntimeError as error:
        raise TaggerError(f"backbone '{name}': {error} Correct or remove what follows the dot.") from error
    if size is not None and cfg is not None and cfg.fixed_input_size and cfg.input_size[-1] != size:
        options["img_size"] = size
    if drop_path > 0:
        options["drop_path_rate"] = drop_path
    if depths:
        options[_depth_option(name)] = list(depths)
    try:
        from_hub = weights == "hub" or weights.startswith(HUB_PREFIX)
        net = _from_hub(name, options) if from_hub else timm.create_model(name, pretrained=False, **options)
    except TypeError as error:
        if drop_path == 0:
            raise
        raise TaggerError(f"backbone '{name}' has no stochastic depth: set backbone.drop_path=0.") from error
    if weights == "bundled":
        load_bundled(net, name)
    elif weights != "none" and not from_hub:
        load_file(net, Path(weights))
    origin: Any = net.pretrained_cfg
    mean, deviation = (origin["mean"], origin["std"]) if normalise else ((0.0,) * 3, (1.0,) * 3)
    backbone = Backbone(net, name, mean, deviation)
    return backbone.to(memory_format=torch.channels_last).freeze(frozen)


def _depth_option(name: str) -> str:
    """Give timm's name for the depths of a network's stages."""
    family = timm.model_entrypoint(name.split(".")[0]).__module__.rpartition(".")[2]
    if family not in DEPTH_OPTIONS:
        raise TaggerError(
            f"backbone '{name}' has depths of its own: leave backbone.depths out, or use a network of the families "
            f"{', '.join(DEPTH_OPTIONS)}."
        )
    return DEPTH_OPTIONS[family]


def _from_hub(name: str, options: dict[str, Any]) -> nn.Module:
    try:
        return timm.create_model(name, pretrained=True, **options)
    except Exception as error:  # network stacks raise many kinds of errors, all meaning "not reached"
        if isinstance(error, TypeError | AttributeError):
            raise
        raise TaggerError(
            f"the weights of '{name}' could not be downloaded from the hub ({type(error).__name__}). If you named "
            f"them as {HUB_PREFIX}owner/name@revision, check these names. Without a network "
            f"use weights 'bundled' ({listed(PACKAGES)}), the path of a .safetensors or .pth file, "
            "or fill the hub's cache on another machine and copy it here (HF_HOME)."
        ) from error
