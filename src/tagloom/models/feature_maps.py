"""The feature maps of any timm model in one form, (B, C, h, w), and what it says of its stages."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from tagloom.errors import TaggerError


def stage_channels(net: nn.Module) -> list[int]:
    """List the channels of each intermediate stage of a timm model, in order; none if it does not name them."""
    info: Any = getattr(net, "feature_info", None)
    return [row["num_chs"] for row in getattr(info, "info", info) or []]


def stage_modules(net: nn.Module) -> list[str]:
    """List the modules whose outputs are the stages of a timm model, by name and in order; none if it names none."""
    info: Any = getattr(net, "feature_info", None)
    return [row.get("module", "") for row in getattr(info, "info", info) or []]


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
