"""Multi-head attention on the fused kernel, and the 2-D sine positions that its keys may carry."""

import math

import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor, nn


class Attention(nn.Module):
    """Multi-head attention: concat over heads of softmax(q kᵀ / √d) v, then one linear map (Vaswani et al., 2017).

    Keys and values are made of the same tokens, in one matmul. A position is added to what keys are made of and never
    to values; since (E + s) W = E W + s W, its part of the keys is computed once for all images of a batch.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.width = width
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        # Keys and values each start like a square matrix of their own, not like halves of a tall one.
        for matrix in (self.query.weight, *self.key_value.weight.detach().chunk(2), self.out.weight):
            nn.init.xavier_uniform_(matrix)
        for linear in (self.query, self.key_value, self.out):
            nn.init.zeros_(linear.bias)

    def project(self, queries: Tensor) -> Tensor:
        """Project queries (B or 1, K, D) to what `forward` takes: (B or 1, heads, K, D / heads)."""
        return self._split(self.query(queries))

    def forward(
        self, projected: Tensor, memory: Tensor, position: Tensor | None = None, maps: list[Tensor] | None = None
    ) -> Tensor:
        """Let every query gather from the memory.

        Args:
            projected: (B or 1, heads, K, D / heads), from `project`; one row serves all images.
            memory: Tokens (B, S, D).
            position: (S, D), added to keys only.
            maps: A list that is given the weights (B, heads, K, S). Only then are they ever computed by themselves.

        Returns:
            (B, K, D).
        """
        keys, values = self.key_value(memory).chunk(2, dim=-1)
        if position is not None:
            keys = keys + F.linear(position, self.key_value.weight[: self.width])
        keys, values = self._split(keys), self._split(values)
        queries = projected.expand(memory.shape[0], -1, -1, -1)
        if maps is None:
            gathered = F.scaled_dot_product_attention(queries, keys, values)
        else:
            weights = (queries @ keys.transpose(-1, -2) / math.sqrt(keys.shape[-1])).softmax(dim=-1)
            maps.append(weights)
            gathered = weights @ values
        gathered_heads: Tensor = self.out(gathered.transpose(1, 2).flatten(2))
        return gathered_heads

    def _split(self, tokens: Tensor) -> Tensor:
        """(B, S, D) to (B, heads, S, D / heads)."""
        batch, count, width = tokens.shape
        return tokens.view(batch, count, self.heads, width // self.heads).transpose(1, 2)


def sine_positions(height: int, width: int, channels: int, like: Tensor) -> Tensor:
    """Give every place of a grid its normalised 2-D sine position (DETR, Carion et al., 2020; Query2Label).

    Rows and columns are counted from 1 and stretched to end at 2π, whatever the size. The first half of the channels
    says the row, the second the column; in each half sines and cosines take turns, at wavelengths from 2π to 20,000π.

    Args:
        height: Rows of the grid.
        width: Columns of the grid.
        channels: D, a multiple of 4.
        like: Gives device and dtype.

    Returns:
        (height * width, D).

    >>> sine_positions(7, 7, 16, torch.zeros(1)).shape
    torch.Size([49, 16])
    """
    exact = torch.promote_types(like.dtype, torch.float32)  # half precision cannot tell neighbouring places apart
    half = channels // 2
    wavelength = 10_000.0 ** (torch.arange(0, half, 2, device=like.device, dtype=exact) / half)

    def along(length: int) -> Tensor:
        steps = torch.arange(1, length + 1, device=like.device, dtype=exact) * (2 * math.pi / length)
        angle = steps[:, None] / wavelength
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)  # (length, half)

    rows = along(height)[:, None].expand(-1, width, -1)
    columns = along(width)[None].expand(height, -1, -1)
    return torch.cat([rows, columns], dim=-1).flatten(0, 1).to(like.dtype)
