"""Heads: from a feature map to one logit per class. `tagloom.recipe.names.HEADS` lists them."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from tagloom.checks import check_choice, check_whole
from tagloom.errors import RecipeError
from tagloom.models.heads.head import ClassWords, Head
from tagloom.models.heads.queries import WordVectors
from tagloom.recipe.head_parts import nest_options
from tagloom.recipe.names import HEADS, resolve

__all__ = ["ClassWords", "Head", "WordVectors", "check_head_options", "create_head", "head_class", "needs_words"]


def create_head(
    name: str,
    *,
    in_channels: int,
    classes: int,
    stage_channels: Sequence[int] = (),
    word_vectors: WordVectors | None = None,
    **options: Any,
) -> Head:
    """Make a head: an `nn.Module` from a feature map (B, C, H, W) to logits (B, N).

    It works with any backbone; nothing else of Tagloom is needed. A head with the option `stages` also takes the maps
    of these stages, (B, C_s, H_s, W_s) each.

    Args:
        name: A key of `tagloom.recipe.names.HEADS`.
        in_channels: Channels C of the feature map.
        classes: Number of classes N.
        stage_channels: Channels of every stage of the backbone, stage 1 first; only heads that read stages need them.
        word_vectors: (N, d_w), one row per class; only heads with words need them (`tagloom.words.encode_labels`).
        options: The head's own options, for example `dropout` of "gap". A query head takes `queries`, `decoder` and
            `readout`, each a name or a dict of options, and a few more: see `QueryHead`.

    >>> import torch
    >>> create_head("gap", in_channels=8, classes=3)(torch.zeros(2, 8, 7, 7)).shape
    torch.Size([2, 3])
    >>> create_head("ml-decoder", in_channels=8, classes=30, readout={"groups": 10})(torch.zeros(2, 8, 7, 7)).shape
    torch.Size([2, 30])
    """
    head = head_class(name)
    check_whole("number of classes", classes, 1)
    check_whole("number of channels", in_channels, 1)
    options = check_head_options(name, options)
    facts: dict[str, Any] = {"in_channels": in_channels, "classes": classes, "stage_channels": stage_channels}
    taken = inspect.signature(head).parameters
    if word_vectors is not None:
        if "word_vectors" not in taken:
            raise RecipeError(f"head '{name}' has no words: leave word_vectors out, or use 'ml-decoder-words'.")
        facts["word_vectors"] = word_vectors
    return head(**{fact: value for fact, value in facts.items() if fact in taken}, **options)


def head_class(name: str) -> type[Head]:
    """Find the class of a head by its name."""
    check_choice("head", name, HEADS)
    found: type[Head] = resolve(HEADS[name])
    return found


def check_head_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse options that a head or its parts do not have, and give them with each under the part that uses it.

    Whether their values can work is checked when the head is made.
    """
    nested = nest_options(name, options)
    head_class(name).check_options(nested)
    return nested


def needs_words(name: str, options: Mapping[str, Any]) -> bool:
    """Say whether a head with these options is made from word vectors.

    >>> needs_words("ml-decoder-words", {}), needs_words("tf", {}), needs_words("tf", {"queries": "words"})
    (True, False, True)
    """
    return head_class(name).needs_words(nest_options(name, options))
