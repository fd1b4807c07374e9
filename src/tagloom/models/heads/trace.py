"""Following logits back to the positions of the image that they come from, without gradients.

While a head computes, a `Trace` notes what each step did to the tokens of the queries. It then walks the steps
backwards from the direction in which a token raises its label's logit. Where the walk meets an attention, the direction
is multiplied with what each position brought there:

    evidence(label, place) = Σ over layers and heads: weight(query, place) · direction(label) · W_out · value(place)

Attention weights, the scales of norms and what ReLUs and GELUs let through are taken as they are. For these, every step
is linear, so this is the part of the logit that came from each position. Labels of one group share weights and values,
and differ by their directions. All of it is plain products of tensors, so it is exported like the head itself.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor, nn

Step: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor | None]]
"""From directions (B, N, D) after a step and the token (N,) of each label to those before it, and evidence."""

Gate: TypeAlias = Callable[[Tensor], Tensor]
"""From the inputs of an activation to the share of each that it lets through."""


class Trace:
    """What happened to the tokens of the queries, step by step.

    Attributes:
        attention: The weights (B, heads, K, S) of each layer in which queries read the image.
    """

    def __init__(self) -> None:
        self.attention: list[Tensor] = []
        self._steps: list[Step] = []

    def note_norm(self, norm: nn.LayerNorm, inputs: Tensor, times: float = 1.0) -> None:
        """Note a layer norm of inputs (B or 1, K, D), which are so many times the tokens."""
        self._steps.append(lambda direction, owner: (times * _through_norm(norm, inputs, direction, owner), None))

    def note_feed_forward(
        self, expand: nn.Linear, contract: nn.Linear, inputs: Tensor, gate: Gate, norm: nn.LayerNorm | None = None
    ) -> None:
        """Note x + W₂ · act(W₁ · x) of (B or 1, K, D), or with a norm x + W₂ · act(W₁ · LN(x)).

        Args:
            expand: W₁.
            contract: W₂.
            inputs: x.
            gate: What act multiplies its inputs by.
            norm: LN, if it is part of the step.
        """

        def back(direction: Tensor, owner: Tensor) -> tuple[Tensor, None]:
            let_through = gate(expand(inputs if norm is None else norm(inputs))).index_select(1, owner)
            below = F.linear(F.linear(direction, contract.weight.T) * let_through, expand.weight.T)
            return direction + (below if norm is None else _through_norm(norm, inputs, below, owner)), None

        self._steps.append(back)

    def note_attention(self, weights: Tensor, values: Tensor, out: nn.Linear, first: int = 0) -> None:
        """Note x + W_out · (weights @ values).

        Args:
            weights: (B, heads, K, S).
            values: (B, heads, S, D / heads).
            out: W_out.
            first: How many of the S are queries; the image's positions come after them.
        """
        self.attention.append(weights[:, :, : first or None, first:])

        def back(direction: Tensor, owner: Tensor) -> tuple[Tensor, Tensor]:
            batch, heads, _, width = values.shape
            asked = F.linear(direction, out.weight.T)
            asked = asked.view(*asked.shape[:2], heads, width).transpose(1, 2)
            brought = asked.expand(batch, -1, -1, -1) @ values[:, :, first:].transpose(-1, -2)  # (B, heads, N, S)
            seen = weights[:, :, :, first:].index_select(2, owner)
            return direction, (brought * seen).sum(dim=1)

        self._steps.append(back)

    def evidence(self, direction: Tensor, owner: Tensor, positions: int) -> Tensor:
        """Give the evidence (B, N, positions) of each label.

        Args:
            direction: (B or 1, N, D), how each label's logit grows with its token.
            owner: (N,), the token of each label.
            positions: How many of the S belong to the image's grid.
        """
        found: list[Tensor] = []
        for step in reversed(self._steps):
            direction, part = step(direction, owner)
            if part is not None:
                found.append(part[..., :positions])
        return torch.stack(found).sum(dim=0)


def _through_norm(norm: nn.LayerNorm, inputs: Tensor, direction: Tensor, owner: Tensor) -> Tensor:
    """Take directions (B, N, D) back through a layer norm of inputs (B or 1, K, D)."""
    scale = (inputs.var(dim=-1, keepdim=True, unbiased=False) + norm.eps).rsqrt()
    scaled = direction * norm.weight * scale.index_select(1, owner)
    return scaled - scaled.mean(dim=-1, keepdim=True)
