"""Grad-CAM++: heat maps from the gradients of a logit with respect to a feature map (Chattopadhay et al., 2018)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tagloom.errors import TaggerError
from tagloom.models.network import TaggerNetwork

TINY = 1e-12


def grad_cam_plus_plus(
    network: TaggerNetwork,
    pictures: Tensor,
    columns: Sequence[int],
    *,
    words: Tensor | None = None,
    stage: int | None = None,
) -> Tensor:
    """Weigh the channels of a map by how much they raise a logit, and add them up.

    With the gradient g = ∂logit/∂A of a map A, channel k weighs w_k = Σ_p α_kp ReLU(g_kp), where
    α_kp = g_kp² / (2 g_kp² + g_kp³ Σ_q A_kq); the heat is ReLU(Σ_k w_k A_k). As in the paper, the score is taken as
    exp(logit), so that its second and third derivatives are powers of g.

    Args:
        network: In eval mode.
        pictures: uint8 (B, H, W, 3).
        columns: The logits to explain.
        words: (K, g, d_w), for the logits of any words.
        stage: The stage whose map is weighed; None for the last map.

    Returns:
        (B, labels, h, w), not negative.
    """
    head = network.head
    wanted = sorted({*head.stages, *([] if stage is None else [stage])})
    # Pixels record gradients, so that every map does, whatever is frozen.
    features, maps = network.maps(pictures.float().requires_grad_(), wanted)
    found = dict(zip(wanted, maps, strict=True))
    summary = head.summarise(features, *(found[number] for number in head.stages))
    logits = head.classify(*summary, words=words)
    activation = features if stage is None else found[stage]
    heat = []
    for column in columns:
        (gradient,) = torch.autograd.grad(logits[:, column].sum(), activation, retain_graph=True, allow_unused=True)
        if gradient is None:
            raise TaggerError(
                f"backbone '{network.backbone.name}' shows a copy of stage {stage}, through which no gradient passes. "
                "Use the last map, or --method eigen-cam."
            )
        heat.append(_weighed(activation, gradient))
    if not heat:
        return activation.new_zeros((len(activation), 0, *activation.shape[2:]))
    return torch.stack(heat, dim=1).detach()


def _weighed(activation: Tensor, gradient: Tensor) -> Tensor:
    """Weigh the channels of a map (B, C, h, w) by its gradient: gives (B, h, w)."""
    square = gradient.square()
    below = 2 * square + square * gradient * activation.sum(dim=(2, 3), keepdim=True)
    alpha = square / torch.where(below.abs() > TINY, below, torch.ones_like(below))
    weights = (alpha * gradient.relu()).sum(dim=(2, 3), keepdim=True)
    return (weights * activation).sum(dim=1).relu()
