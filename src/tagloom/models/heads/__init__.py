"""Heads: from a feature map to one logit per label. Each named head is a key of `HEADS`."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor, nn

from tagloom.errors import RecipeError, unknown_name
from tagloom.models.heads.layover import LayoverHead
from tagloom.models.heads.pooled import PooledHead
from tagloom.models.heads.presets import (
    hsq,
    ml_decoder,
    ml_decoder_small,
    ml_decoder_words,
    ml_decoder_words_grouped,
    query,
    query2label,
    tf,
    transformer_decoder,
)
from tagloom.models.heads.queries import WordVectors


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
    "layover": LayoverHead,
    "ml-decoder": ml_decoder,
    "ml-decoder-small": ml_decoder_small,
    "ml-decoder-words": ml_decoder_words,
    "ml-decoder-words-grouped": ml_decoder_words_grouped,
    "transformer-decoder": transformer_decoder,
    "query2label": query2label,
    "hsq": hsq,
    "tf": tf,
    "query": query,
}

# By backbone and labels, so never written in a recipe.
DECIDED = ("in_channels", "classes", "stage_channels", "word_vectors")


def create_head(
    name: str,
    *,
    in_channels: int,
    classes: int,
    stage_channels: Sequence[int] = (),
    word_vectors: WordVectors | None = None,
    **options: Any,
) -> nn.Module:
    """Make a head: a plain `nn.Module` from a feature map (B, C, H, W) to logits (B, N).

    A head whose options name `stages` also takes the maps of these stages, (B, C_s, H_s, W_s) each.

    It works with anybody's backbone; nothing else of Tagloom is needed.

    Args:
        name: A key of `HEADS`.
        in_channels: Channels C of the feature map.
        classes: Number of labels N.
        stage_channels: Channels of every stage of the backbone, stage 1 first; only heads that read stages need them.
        word_vectors: (N, d_w), one row per class; only heads of words need them (`tagloom.words.encode_labels`).
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
    given = {"in_channels": in_channels, "classes": classes, "stage_channels": stage_channels}
    asked = inspect.signature(HEADS[name]).parameters
    if word_vectors is not None:
        if "word_vectors" not in asked:
            raise RecipeError(f"head '{name}' has no words: leave word_vectors out, or take 'ml-decoder-words'.")
        given["word_vectors"] = word_vectors
    return HEADS[name](**{fact: value for fact, value in given.items() if fact in asked}, **options)


def head_options(name: str) -> Sequence[str]:
    """List the options that a head takes beyond what the backbone and the labels decide."""
    return [option for option in inspect.signature(HEADS[name]).parameters if option not in DECIDED]


def needs_words(name: str, options: Mapping[str, Any]) -> bool:
    """Say whether a head with these options is made from word vectors.

    >>> needs_words("ml-decoder-words", {}), needs_words("tf", {}), needs_words("tf", {"queries": "words"})
    (True, False, True)
    """
    asked = inspect.signature(HEADS[name]).parameters
    parts = [options.get(part, asked[part].default) for part in ("queries", "readout") if part in asked]
    return "words" in parts


def head_purpose(name: str) -> str:
    """Say in a line what a head is: the first line of its docstring."""
    return (inspect.getdoc(HEADS[name]) or "").splitlines()[0]
