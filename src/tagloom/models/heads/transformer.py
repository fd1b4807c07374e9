"""The usual blocks of a transformer: attention on the fused kernel, feed-forward, encoder layer, sine positions.

All layers are post-norm: x ← LN(x + f(x)). Dropout is on every residual branch and inside feed-forward layers.
Attention weights are not dropped, since the fused kernel never computes them.
"""

import math

import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor, nn

from tagloom.checks import check_number, check_whole
from tagloom.errors import RecipeError


class Attention(nn.Module):
    """Multi-head attention: concat over heads of softmax(q kᵀ / √d) v, then one linear map (Vaswani et al., 2017).

    Keys and values are made from the same tokens, in one matmul. A position is added to what keys are made from and
    never to values; since (E + s) W = E W + s W, its part of the keys is computed once for all images of a batch.
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
            maps: A list to add the attention weights (B, heads, K, S) to. They are computed only if it is given.

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


class FeedForward(nn.Module):
    """x ← LN(x + W₂ · ReLU(W₁ · x))."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.expand = nn.Linear(width, hidden)
        self.contract = nn.Linear(hidden, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        for linear in (self.expand, self.contract):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (…, D) to (…, D)."""
        hidden = self.dropout(self.expand(tokens).relu_())
        normed: Tensor = self.norm(tokens + self.dropout(self.contract(hidden)))
        return normed


class SelfAttention(nn.Module):
    """x ← LN(x + attention(x + p, x + p, x)) with positions p."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        tokens: Tensor,
        position: Tensor | None = None,
        first: int | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """Map (B, S, D) to (B, S, D), or to (B, first, D) if later tokens are not needed."""
        asking = tokens[:, :first]
        projected = self.attention.project(asking if position is None else asking + position[:first])
        normed: Tensor = self.norm(asking + self.dropout(self.attention(projected, tokens, position, maps)))
        return normed


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float) -> None:
        super().__init__()
        self.self_attention = SelfAttention(width, heads, dropout)
        self.feed_forward = FeedForward(width, feed_forward, dropout)

    def forward(
        self,
        tokens: Tensor,
        position: Tensor | None = None,
        first: int | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """Map (B, S, D) to (B, S, D), or to (B, first, D)."""
        encoded: Tensor = self.feed_forward(self.self_attention(tokens, position, first, maps))
        return encoded


def memory_positions(grid: tuple[int, int], memory: Tensor) -> Tensor:
    """Give the positions (S, D) of memory (B, S, D): sines for the grid, then zeros for other tokens."""
    beyond = memory.shape[1] - grid[0] * grid[1]
    return F.pad(sine_positions(*grid, memory.shape[2], memory), (0, 0, 0, beyond))


def sine_positions(height: int, width: int, channels: int, like: Tensor) -> Tensor:
    """Give each cell of a grid its normalised 2-D sine position (DETR, Carion et al., 2020; Query2Label).

    Rows and columns are counted from 1 and stretched to end at 2π, whatever the size. The first half of the channels
    encodes the row, the second the column; in each half sines and cosines alternate, at wavelengths from 2π to 20,000π.

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
    exact = torch.promote_types(like.dtype, torch.float32)  # half precision cannot tell neighbouring cells apart
    half = channels // 2
    wavelength = 10_000.0 ** (torch.arange(0, half, 2, device=like.device, dtype=exact) / half)

    def along(length: int) -> Tensor:
        steps = torch.arange(1, length + 1, device=like.device, dtype=exact) * (2 * math.pi / length)
        angle = steps[:, None] / wavelength
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)  # (length, half)

    rows = along(height)[:, None].expand(-1, width, -1)
    columns = along(width)[None].expand(height, -1, -1)
    return torch.cat([rows, columns], dim=-1).flatten(0, 1).to(like.dtype)


def check_sizes(width: int, attention_heads: int, feed_forward: int | None, dropout: float, positions: bool) -> int:
    """Check the options that every decoder has, and give the hidden width of its feed-forward layers."""
    check_whole("head option decoder.attention_heads", attention_heads, 1)
    check_number("head option decoder.dropout", dropout, 0.0, 1.0, below=True)
    if feed_forward is not None:
        check_whole("head option decoder.feed_forward", feed_forward, 1)
    if width % attention_heads:
        raise RecipeError(
            f"width {width} is not divisible by attention_heads {attention_heads}: change head option width or "
            "decoder.attention_heads."
        )
    if positions and width % 4:
        raise RecipeError(
            f"width {width} is not divisible by 4, as sine positions need: change head option width, or set "
            "decoder.positions: false."
        )
    return 4 * width if feed_forward is None else feed_forward
