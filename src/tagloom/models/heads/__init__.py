"""Heads: from a feature map to one logit per label. Each named head is a key of `HEADS`."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from torch import Tensor, nn

from tagloom.errors import RecipeError, unknown_name
from tagloom.models.heads.pooled import PooledHead
from tagloom.models.heads.presets import hsq, ml_decoder, ml_decoder_small, query, query2label, tf, transformer_decoder


class Head(Protocol):
    """What the rest of Tagloom asks of a head (an `nn.Module`).

    Attributes:
        stages: Intermediate stages of the backbone that it wants, by number; most heads want none.
        summary: Names of the tensors that `summarise` gives, the key under which a feature cache keeps them.
        scales: One `FeatureScale` per summary tensor, to standardise frozen features.
    """

    stages: tuple[int, ...]
    summary: tuple[str, ...]
    scales: nn.ModuleList

    def summarise(self, features: Tensor, *stages: Tensor) -> tuple[Tensor, ...]:
        """Reduce (B, C, H, W) features to what `classify` needs; no parameters, so that it can be cached."""

    def classify(self, *summary: Tensor) -> Tensor:
        """Map a summary to logits (B, N)."""


HEADS: dict[str, Callable[..., nn.Module]] = {
    "gap": PooledHead,
    "ml-decoder": ml_decoder,
    "ml-decoder-small": ml_decoder_small,
    "transformer-decoder": transformer_decoder,
    "query2label": query2label,
    "hsq": hsq,
    "tf": tf,
    "query": query,
}


def create_head(name: str, *, in_channels: int, classes: int, **options: Any) -> nn.Module:
    """Make a head: a plain `nn.Module` from a feature map (B, C, H, W) to logits (B, N).

    It works with anybody's backbone; nothing else of Tagloom is needed.

    Args:
        name: A key of `HEADS`.
        in_channels: Channels C of the feature map.
        classes: Number of labels N.
        options: The head's own options, for example `dropout`; `head_options` lists them.

    >>> import torch
    >>> create_head("gap", in_channels=8, classes=3)(torch.zeros(2, 8, 7, 7)).shape
    torch.Size([2, 3])
    >>> create_head("ml-decoder", in_channels=8, classes=30, groups=10)(torch.zeros(2, 8, 7, 7)).shape
    torch.Size([2, 30])
    """
    if name not in HEADS:
        raise RecipeError(unknown_name("head", name, HEADS))
    if classes < 1 or in_channels < 1:
        raise RecipeError(f"a head needs at least one class and one channel, not {classes} and {in_channels}.")
    allowed = head_options(name)
    for option in options:
        if option not in allowed:
            raise RecipeError(unknown_name(f"option of head '{name}'", option, allowed))
    return HEADS[name](in_channels=in_channels, classes=classes, **options)


def head_options(name: str) -> Sequence[str]:
    """List the options that a head takes beyond channels and classes."""
    return [option for option in inspect.signature(HEADS[name]).parameters if option not in ("in_channels", "classes")]


def head_purpose(name: str) -> str:
    """Say in a line what a head is: the first line of its docstring."""
    return (inspect.getdoc(HEADS[name]) or "").splitlines()[0]
