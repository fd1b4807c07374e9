"""Pooling a map to one vector per image, without parameters, so that a cache can store it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor

from tagloom.checks import check_choice
from tagloom.errors import RecipeError
from tagloom.wording import shown

GEM_POWER = 3
GEM_FLOOR = 1e-6  # roots have no slope at zero


def mean_pool(features: Tensor) -> Tensor:
    """Average (B, C, H, W) over its positions to (B, C)."""
    return features.mean(dim=(2, 3))


def class_activation(features: Tensor, scale: Callable[[Tensor], Tensor], weight: Tensor) -> Tensor:
    """Say how much each position adds to logits that read the mean over positions.

    W · standardise(mean of x_p) + b is the mean of W · standardise(x_p) + b, so each term belongs to one position.

    Args:
        features: x, (B, C, H, W).
        scale: Standardises them.
        weight: W, (N, C).

    Returns:
        (B, N, H, W).
    """
    return F.conv2d(scale(features), weight[:, :, None, None])


def max_pool(features: Tensor) -> Tensor:
    """Take the largest value of each channel: (B, C, H, W) to (B, C)."""
    return features.amax(dim=(2, 3))


def gem_pool(features: Tensor) -> Tensor:
    """Take the generalised mean (mean of x³)^⅓ of (B, C, H, W): (B, C), between mean and maximum.

    Negative values count as nearly zero, so it suits stages that end in a ReLU or the like.
    """
    exact = features.to(torch.promote_types(features.dtype, torch.float32))  # cubes leave half precision's range
    return exact.clamp_min(GEM_FLOOR).pow(GEM_POWER).mean(dim=(2, 3)).pow(1 / GEM_POWER)


def mean_max_pool(features: Tensor) -> Tensor:
    """Join mean and maximum: (B, C, H, W) to (B, 2 C)."""
    return torch.cat([mean_pool(features), max_pool(features)], dim=1)


def flatten_pool(features: Tensor, values: int) -> Tensor:
    """Put tokens end to end and average neighbours: (B, C, H, W) to (B, values) (layover, Eq. 3).

    Tokens are in row order and a token's channels are adjacent, so the kernel, H·W·C / values long, spans whole tokens.
    That averages the channels away, and little but a constant is left:

    >>> noise = torch.randn(2, 128, 96, 96, generator=torch.Generator().manual_seed(0))  # stage 1 of Swin-B at 384
    >>> pooled = flatten_pool(noise, 1024)  # means of 9 tokens of 128 channels: deviations shrink by √1152
    >>> tuple(pooled.shape), round(float(noise.std() / pooled.std()))
    ((2, 1024), 34)
    """
    return F.adaptive_avg_pool1d(features.permute(0, 2, 3, 1).flatten(1), values)


POOLINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": mean_pool,
    "max": max_pool,
    "gem": gem_pool,
    "mean+max": mean_max_pool,
}
POOLING_NAMES = (*POOLINGS, "flatten")


class StagePooling(NamedTuple):
    """How one stage becomes one vector.

    Attributes:
        stage: The stage's number, 1 the earliest.
        name: Stage and pooling, for example "stage1:mean": the name under which a cache stores the vector.
        values: Length of the vector.
        pool: The function, (B, C_s, H, W) to (B, values).
    """

    stage: int
    name: str
    values: int
    pool: Callable[[Tensor], Tensor]


def choose_poolings(
    stages: Sequence[int], pooling: str, *, stage_channels: Sequence[int], in_channels: int
) -> tuple[StagePooling, ...]:
    """Decide how each wanted stage is pooled; the result is in the order of the network.

    Args:
        stages: Numbers of the wanted stages.
        pooling: One of `POOLING_NAMES`, for all of them.
        stage_channels: Channels of every stage of the backbone, stage 1 first.
        in_channels: Channels C of the last map, which is also the number of values that "flatten" gives.

    >>> first, second = choose_poolings([3, 1], "mean+max", stage_channels=[8, 16, 32], in_channels=64)
    >>> (first.name, first.values), (second.name, second.values)
    (('stage1:mean+max', 16), ('stage3:mean+max', 64))
    """
    check_choice("pooling", pooling, POOLING_NAMES)
    _check_stages(stages, len(stage_channels))

    def choose(stage: int) -> StagePooling:
        name, channels = f"stage{stage}:{pooling}", stage_channels[stage - 1]
        if pooling == "flatten":
            return StagePooling(stage, name, in_channels, partial(flatten_pool, values=in_channels))
        return StagePooling(stage, name, 2 * channels if pooling == "mean+max" else channels, POOLINGS[pooling])

    return tuple(choose(stage) for stage in sorted(stages))


def _check_stages(stages: Sequence[int], count: int) -> None:
    whole = isinstance(stages, list | tuple) and all(type(stage) is int for stage in stages)
    if not whole or len(set(stages)) < len(stages):
        raise RecipeError(f"head option stages is {shown(stages)}; it must be a list of different stages, like [1].")
    if stages and count == 0:
        raise RecipeError(
            f"head option stages is {list(stages)}, but the backbone names no stages. Use another backbone; with "
            "create_head, give stage_channels: the channels of every stage of your backbone."
        )
    if not all(1 <= stage <= count for stage in stages):
        raise RecipeError(f"head option stages is {list(stages)}; this backbone has the stages 1 to {count}.")
