"""Starting a training from the weights of another tagger: two-stage training, or reuse of a trained backbone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tagloom.errors import TaggerError
from tagloom.models.heads import Head
from tagloom.models.network import TaggerNetwork, load_network
from tagloom.tagger.spec import read_spec


def start_from(
    network: TaggerNetwork, folder: Path, *, classes: Sequence[str], head: str, head_options: dict[str, Any]
) -> bool:
    """Copy the weights of a finished tagger into a network: its backbone, and its head if that is the same.

    Args:
        network: The network to fill.
        folder: A tagger folder with the same backbone.
        classes: Classes of the network, in order.
        head: Name of the network's head.
        head_options: Its options, as a recipe holds them.

    Returns:
        Whether the head was copied too.
    """
    spec = read_spec(folder)
    if spec.backbone != network.backbone.name:
        raise TaggerError(
            f"{folder}: training cannot start from it: its backbone is {spec.backbone}, the recipe's is "
            f"{network.backbone.name}. Set backbone.name={spec.backbone}."
        )
    trained = load_network(folder, spec)
    ours, theirs = network.backbone.state_dict(), trained.backbone.state_dict()
    if set(ours) != set(theirs):
        raise TaggerError(
            f"{folder}: training cannot start from it: its backbone has other depths. Set "
            f"backbone.depths={list(spec.backbone_depths)}."
        )
    if not ours["mean"].any():  # a recipe that asks for plain pixels gets them
        theirs |= {name: ours[name] for name in ("mean", "deviation")}
    network.backbone.load_state_dict(theirs)
    same = (tuple(spec.classes), spec.head, spec.head_options) == (tuple(classes), head, head_options)
    if same and _same_words(network.head, trained.head):
        network.head.load_state_dict(trained.head.state_dict())
        return True
    return False


def _same_words(one: Head, other: Head) -> bool:
    """Say whether two heads have the same words for their classes, or no words."""
    ours, theirs = one.class_words(), other.class_words()
    if ours is None or theirs is None:
        return ours is theirs
    same_shape = ours.vectors.shape == theirs.vectors.shape
    return same_shape and torch.allclose(ours.vectors, theirs.vectors, atol=1e-3)
