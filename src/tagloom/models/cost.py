"""What a network costs: parameters and multiply-adds, counted from shapes alone."""

from typing import NamedTuple

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tagloom.models.heads import needs_words
from tagloom.models.network import TaggerNetwork, build_network

WORD_SIZE = 384  # of MiniLM and many other sentence encoders


class Cost(NamedTuple):
    """What a network costs.

    Attributes:
        parameters: Number of all parameters.
        multiply_adds: Multiplications with an addition, for one picture.
    """

    parameters: int
    multiply_adds: int


def count_cost(network: nn.Module, *inputs: torch.Tensor) -> Cost:
    """Count the parameters of a network and the multiply-adds of one forward pass.

    Matrix products, convolutions and attention are counted, as papers do; additions, norms and activations are not.
    On the "meta" device nothing is computed.
    """
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network.eval()(*inputs)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return Cost(parameters, counter.get_total_flops() // 2)


def tagger_cost(backbone: str, head: str, *, classes: int, size: int, **head_options: object) -> tuple[Cost, Cost]:
    """Count what a whole tagger and its head alone cost for one picture, with words as vectors of 384 values.

    Returns:
        The cost of backbone and head together, and of the head.
    """
    with torch.device("meta"):
        network: TaggerNetwork = build_network(
            backbone=backbone,
            weights="none",
            head=head,
            head_options=dict(head_options),
            classes=classes,
            size=size,
            frozen=False,
            word_vectors=torch.zeros(classes, WORD_SIZE) if needs_words(head, head_options) else None,
        )
        pictures = torch.zeros(1, size, size, 3, dtype=torch.uint8)
        whole = count_cost(network, pictures)
        body = count_cost(network.backbone, pictures.permute(0, 3, 1, 2))
    return whole, Cost(whole.parameters - body.parameters, whole.multiply_adds - body.multiply_adds)
