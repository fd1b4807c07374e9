"""Layover: intermediate stages of a backbone as hints for a pooled head."""

import math
from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor, nn

from tagloom.checks import check_choice, check_number
from tagloom.errors import RecipeError, TagloomError
from tagloom.models.heads.head import Head
from tagloom.models.heads.pooling import choose_poolings, class_activation, mean_pool
from tagloom.models.heads.scale import FeatureScale

MIXING_NAMES = ("image", "class", "concatenate")
ACTIVATION_NAMES = ("sigmoid", "none")


class LayoverHead(Head):
    """Layover: stages mixed into the pooled feature by learned amounts (Eom et al., 2022, section 2).

    With the pooled last map z and the pooled stages p_s, both standardised: ĥ_s = sigmoid(W_s · p_s + b_s);
    α = softmax([0, a_1 … a_S]) without its first entry, a = V · z + c; z' = (1 − Σ α_s) z + Σ α_s ĥ_s;
    logits = W · z' + b. For one stage that is the paper's: softmax([0, a]) has the entries 1 − σ(a) and σ(a).

    Args:
        in_channels: Channels C of the last map.
        classes: Number of classes N.
        stage_channels: Channels of every stage of the backbone, stage 1 first; build_network and attach_head know them.
        stages: The stages to mix in.
        pooling: How a stage becomes a vector: "mean", "max", "gem" (generalised mean, power 3), "mean+max" (joined), or
            "flatten" (the paper's for tokens: Eq. 3), whose C values are ĥ itself, with neither map nor activation.
        mixing: "image", an amount per image and stage (the paper's); "class", one per class and stage, the same for all
            images: logit_i = (1 − Σ α_is) w_i · z + Σ α_is w_i · ĥ_s + b_i; or "concatenate", no amounts and no ĥ:
            logits = W · z + Σ U_s · p_s + b, a linear probe on everything.
        activation: After the map to ĥ: "sigmoid" (the paper's) or "none".
        mixing_start: The share of all stages together, Σ α_s, before the first step.
        dropout: On what the last linear layer reads.

    >>> head = LayoverHead(in_channels=8, classes=3, stage_channels=[4, 6], stages=[2])
    >>> head(torch.zeros(2, 8, 3, 3), torch.zeros(2, 6, 6, 6)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        in_channels: int,
        classes: int,
        stage_channels: Sequence[int] = (),
        stages: Sequence[int] = (1,),
        pooling: str = "mean",
        mixing: str = "image",
        activation: str = "sigmoid",
        mixing_start: float = 0.02,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        _check(stages, mixing, activation, mixing_start, dropout)
        self.poolings = choose_poolings(stages, pooling, stage_channels=stage_channels, in_channels=in_channels)
        self.stages = tuple(pooled.stage for pooled in self.poolings)
        self.summary = ("pooled", *(pooled.name for pooled in self.poolings))
        self.mixing = mixing
        self.mixes_per_image = mixing == "image"
        widths = [pooled.values for pooled in self.poolings]
        self.scales = nn.ModuleList([FeatureScale(width) for width in (in_channels, *widths)])
        if mixing == "concatenate":
            self.hints = nn.ModuleList([nn.Identity() for _ in widths])
            self.mixer: nn.Module = Concatenation(in_channels, classes, widths, dropout)
            return
        mapped = pooling != "flatten"
        self.hints = nn.ModuleList(
            [_hint(width, in_channels, activation) if mapped else nn.Identity() for width in widths]
        )
        kind = ImageMixing if mixing == "image" else ClassMixing
        # The paper does not say where α starts. As printed, under SGD, it ran to 1 and mAP fell far below the probe's;
        # started near 0 (−4 before the sigmoid) it stayed at the probe's. So training begins as the linear probe.
        start = math.log(mixing_start / (1 - mixing_start) / len(widths))
        self.mixer = kind(in_channels, classes, len(widths), start, dropout)

    def summarise(self, features: Tensor, *stages: Tensor) -> tuple[Tensor, ...]:
        """Pool features to (B, C), and each stage to its vector (B, P_s)."""
        pairs = zip(self.poolings, stages, strict=True)
        return (mean_pool(features), *(pooled.pool(stage) for pooled, stage in pairs))

    def classify(self, pooled: Tensor, *stages: Tensor, words: Tensor | None = None) -> Tensor:
        """Map the pooled feature (B, C) and pooled stages (B, P_s) to logits (B, N)."""
        self.refuse_words(words)
        z, hints = self._standardise(pooled, *stages)
        logits: Tensor = self.mixer(z, hints)
        return logits

    def evidence(self, features: Tensor, *stages: Tensor, words: Tensor | None = None) -> Tensor:
        """Show what each position of the last map adds to each logit; stages are left out: (B, N, H, W)."""
        self.refuse_words(words)
        weight = cast(nn.Linear, self.mixer.linear).weight[:, : features.shape[1]]
        return class_activation(features, self.scales[0], weight)

    def mixing_amounts(self, pooled: Tensor, *stages: Tensor) -> Tensor:
        """Show α, how much of each stage is mixed in, one column per entry of `stages`.

        Args:
            pooled: (B, C), the first of `summarise`.
            stages: The rest of `summarise`.

        Returns:
            A row per image (B, S) with mixing "image", a row per class (N, S) with mixing "class".
        """
        if isinstance(self.mixer, Concatenation):
            raise TagloomError("this head has no mixing amounts: use mixing 'image' or 'class'.")
        z, _ = self._standardise(pooled, *stages)
        shares: Tensor = cast(ImageMixing | ClassMixing, self.mixer).shares(z)
        return shares[:, 1:]

    def _standardise(self, *summary: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Give z (B, C) and every ĥ_s (B, C), or p_s (B, P_s) if they are concatenated."""
        z, *pooled = (scale(vector) for scale, vector in zip(self.scales, summary, strict=True))
        return z, [hint(vector) for hint, vector in zip(self.hints, pooled, strict=True)]


class ImageMixing(nn.Module):
    """logits = W · (a_0 z + Σ a_s ĥ_s) + b with a = softmax([0, V · z + c]): amounts per image."""

    def __init__(self, channels: int, classes: int, stages: int, start: float, dropout: float) -> None:
        super().__init__()
        self.amounts = nn.Linear(channels, stages)
        nn.init.zeros_(self.amounts.weight)
        nn.init.constant_(self.amounts.bias, start)
        self.linear = _linear_from_zero(channels, classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, z: Tensor, hints: list[Tensor]) -> Tensor:
        """Map z (B, C) and ĥ_s (B, C) to logits (B, N)."""
        sources = torch.stack([z, *hints], dim=1)  # (B, 1 + S, C)
        mixed = (self.shares(z).unsqueeze(1) @ sources).squeeze(1)
        logits: Tensor = self.linear(self.dropout(mixed))
        return logits

    def shares(self, z: Tensor) -> Tensor:
        """Give the shares (B, 1 + S) of z and of every ĥ_s; each row sums to 1."""
        return F.pad(self.amounts(z), (1, 0)).softmax(dim=-1)


class ClassMixing(nn.Module):
    """logit_i = a_i0 w_i · z + Σ a_is w_i · ĥ_s + b_i with a_i = softmax([0, start + v_i]): amounts per class."""

    def __init__(self, channels: int, classes: int, stages: int, start: float, dropout: float) -> None:
        super().__init__()
        self.start = start
        # Relative to the start, so that weight decay pulls amounts back to it and not to equal shares.
        self.amounts = nn.Parameter(torch.zeros(classes, stages))
        self.linear = _linear_from_zero(channels, classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, z: Tensor, hints: list[Tensor]) -> Tensor:
        """Map z (B, C) and ĥ_s (B, C) to logits (B, N)."""
        sources = torch.stack([z, *hints], dim=1)  # (B, 1 + S, C)
        parts = F.linear(self.dropout(sources), self.linear.weight)  # (B, 1 + S, N)
        return (parts * self.shares(z).T).sum(dim=1) + self.linear.bias

    def shares(self, z: Tensor) -> Tensor:
        """Give the shares (N, 1 + S) of z and of every ĥ_s; each row sums to 1, whatever the image."""
        return F.pad(self.start + self.amounts, (1, 0)).softmax(dim=-1)


class Concatenation(nn.Module):
    """logits = W · z + Σ U_s · p_s + b: one linear layer over everything side by side."""

    def __init__(self, channels: int, classes: int, widths: Sequence[int], dropout: float) -> None:
        super().__init__()
        self.linear = _linear_from_zero(channels + sum(widths), classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, z: Tensor, pooled: list[Tensor]) -> Tensor:
        """Map z (B, C) and p_s (B, P_s) to logits (B, N)."""
        logits: Tensor = self.linear(self.dropout(torch.cat([z, *pooled], dim=1)))
        return logits


def _hint(width: int, channels: int, activation: str) -> nn.Module:
    """Make the map from a pooled stage (B, P_s) to ĥ (B, C)."""
    linear = nn.Linear(width, channels)
    return nn.Sequential(linear, nn.Sigmoid()) if activation == "sigmoid" else linear


def _linear_from_zero(channels: int, classes: int) -> nn.Linear:
    """Make a linear layer that starts where `PooledHead` does: every class at the same score."""
    linear = nn.Linear(channels, classes)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


def _check(stages: Sequence[int], mixing: str, activation: str, mixing_start: float, dropout: float) -> None:
    check_choice("head option mixing", mixing, MIXING_NAMES)
    check_choice("head option activation", activation, ACTIVATION_NAMES)
    check_number("head option mixing_start", mixing_start, 0.0, 1.0, below=True)
    check_number("head option dropout", dropout, 0.0, 1.0, below=True)
    if mixing_start == 0:
        raise RecipeError("head option mixing_start is 0, from which no amount can grow: use a small one like 0.01.")
    if not stages:
        raise RecipeError("head option stages is empty; without a stage use the head 'gap'.")
