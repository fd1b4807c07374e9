"""Any timm model as a backbone: one form of features, its own normalisation, freezing that lasts."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import timm
import torch
from torch import Tensor, nn

from tagloom.errors import TaggerError, unknown_name
from tagloom.hub import HUB_PREFIX, split_hub_name
from tagloom.models.weights import BUNDLED_BACKBONE, load_bundled, load_file


class Backbone(nn.Module):
    """From pixels to a feature map, whatever the network inside.

    It does the normalisation that its weights need, so callers pass plain pixel values. Token networks give their patch
    tokens as a map; prefix tokens (class, registers) are left out.

    Attributes:
        out_channels: Channels C of the feature map.
        stage_channels: Channels of each intermediate stage, in the network's order; stage 1 is the first.
        frozen: While true, the network gets no gradient and stays in eval mode through `.train()`.
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
        if not all(1 <= stage <= len(self.stage_channels) for stage in stages):
            raise TaggerError(
                f"backbone '{self.name}' has the stages 1 to {len(self.stage_channels)}, not {list(stages)}."
            )
        images = (pixels.to(self.mean.dtype) - self.mean) / self.deviation
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            return feature_maps(self.net, images, stages)

    def freeze(self, frozen: bool = True) -> "Backbone":
        """Stop the training of the network, or allow it again; a frozen one stays in eval mode."""
        self.frozen = frozen
        self.net.requires_grad_(not frozen)
        return self.train(self.training)

    def train(self, mode: bool = True) -> "Backbone":
        """Set training mode, except for a frozen network: its running statistics must not change."""
        super().train(mode)
        if self.frozen:
            self.net.train(False)
        return self


def stage_channels(net: nn.Module) -> list[int]:
    """List the channels of each intermediate stage of a timm model, in order; none if it does not name them."""
    info: Any = getattr(net, "feature_info", None)
    return [row["num_chs"] for row in getattr(info, "info", info) or []]


def feature_maps(net: nn.Module, images: Tensor, stages: Sequence[int] = ()) -> tuple[Tensor, list[Tensor]]:
    """Run any timm model up to its last feature map; give it and the wanted intermediate ones.

    Args:
        net: A timm model; its classifier is not used.
        images: (B, 3, H, W), normalised for the model.
        stages: Intermediate stages by number, 1 the earliest.

    Returns:
        The last map (B, C, h, w), and a map (B, C_s, h_s, w_s) for each wanted stage.
    """
    if not stages:
        return _as_map(net, net.forward_features(images), images), []  # type: ignore[operator]
    last, maps = net.forward_intermediates(  # type: ignore[operator]
        images, indices=[stage - 1 for stage in stages], output_fmt="NCHW"
    )
    return _as_map(net, last, images), list(maps)


def _as_map(net: nn.Module, features: Tensor, images: Tensor) -> Tensor:
    """Give (B, C, h, w), whatever layout the network uses."""
    channels: int = net.num_features  # type: ignore[assignment]
    if features.ndim == 4:
        if features.shape[1] != channels and features.shape[-1] == channels:
            return features.permute(0, 3, 1, 2)  # Swin and similar networks give (B, h, w, C)
        return features
    if features.ndim == 3:
        # A few older networks have a class token and do not say so.
        tokens = features[:, getattr(net, "num_prefix_tokens", int(hasattr(net, "cls_token"))) :]
        height, width = _grid(tokens.shape[1], images.shape[-2] / images.shape[-1])
        return tokens.transpose(1, 2).reshape(-1, channels, height, width)
    raise TaggerError(
        f"a {type(net).__name__} gives features of {features.ndim} dimensions, from which no map can be made."
    )


def _grid(tokens: int, aspect: float) -> tuple[int, int]:
    """Give the rows and columns of patch tokens for a picture with height / width = aspect."""
    height = round(math.sqrt(tokens * aspect))
    if height == 0 or tokens % height or round(height / aspect) != tokens // height:
        raise TaggerError(f"{tokens} patch tokens form no grid at aspect {aspect:.2f}; use a square image size.")
    return height, tokens // height


def create_backbone(
    name: str = BUNDLED_BACKBONE,
    weights: str = "bundled",
    *,
    size: int | None = None,
    frozen: bool = False,
    drop_path: float = 0.0,
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
    backbone = Backbone(net, name, origin["mean"], origin["std"])
    return backbone.to(memory_format=torch.channels_last).freeze(frozen)


def _from_hub(name: str, options: dict[str, Any]) -> nn.Module:
    try:
        return timm.create_model(name, pretrained=True, **options)
    except Exception as error:  # network stacks raise many kinds of errors, all meaning "not reached"
        if isinstance(error, TypeError | AttributeError):
            raise
        raise TaggerError(
            f"the weights of '{name}' could not be downloaded from the hub ({type(error).__name__}). If you named "
            f"them as {HUB_PREFIX}owner/name@revision, check these names. Without a network "
            f"use weights 'bundled' ({BUNDLED_BACKBONE}), the path of a .safetensors or .pth file, "
            "or fill the hub's cache on another machine and copy it here (HF_HOME)."
        ) from error
