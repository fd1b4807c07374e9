"""The usual blocks of a transformer: attention on the fused kernel, feed-forward, encoder layer, sine positions.

Layers are post-norm, x ← LN(x + f(x)), or pre-norm (`norm_first`), x ← x + f(LN(x)). Dropout is on every residual
branch and inside feed-forward layers; on attention weights only if asked for.
"""

import math

import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor, nn

from tagloom.checks import check_number, check_whole
from tagloom.errors import RecipeError
from tagloom.models.heads.trace import Trace


def _relu_gate(values: Tensor) -> Tensor:
    return (values > 0).to(values.dtype)


ACTIVATIONS = {"relu": torch.relu_, "gelu": F.gelu}
# By how much each lets a value through: act(x) = gate(x) · x.
GATES = {"relu": _relu_gate, "gelu": torch.special.ndtr}


class Attention(nn.Module):
    """Multi-head attention: concat over heads of softmax(q kᵀ / √d) v, then one linear map (Vaswani et al., 2017).

    Keys and values are made from the same tokens, in one matmul. A position is added to what keys are made from and
    never to values; since (E + s) W = E W + s W, its part of the keys is computed once for all images of a batch.

    Args:
        width: D of the tokens.
        heads: Number of heads.
        head_width: d of each head; None for D / heads.
        bias: Whether queries, keys and values have biases.
        dropout: On the attention weights.
    """

    def __init__(
        self, width: int, heads: int, head_width: int | None = None, bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.inner = width if head_width is None else heads * head_width
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(width, self.inner, bias=bias)
        self.key_value = nn.Linear(width, 2 * self.inner, bias=bias)
        self.out = nn.Linear(self.inner, width)
        # Keys and values each start like a matrix of their own, not like halves of a tall one.
        for matrix in (self.query.weight, *self.key_value.weight.detach().chunk(2), self.out.weight):
            nn.init.xavier_uniform_(matrix)
        for linear in (self.query, self.key_value, self.out):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def project(self, queries: Tensor) -> Tensor:
        """Project queries (B or 1, K, D) to what `forward` takes: (B or 1, heads, K, d)."""
        return self._split(self.query(queries))

    def forward(
        self,
        projected: Tensor,
        memory: Tensor,
        position: Tensor | None = None,
        trace: Trace | None = None,
        first: int = 0,
    ) -> Tensor:
        """Let every query gather from the memory.

        Args:
            projected: (B or 1, heads, K, d), from `project`; one row serves all images.
            memory: Tokens (B, S, D).
            position: (S, D), added to keys only.
            trace: Notes weights and values. The weights are computed only if it is given.
            first: How many tokens of the memory are queries themselves, for the trace.

        Returns:
            (B, K, D).
        """
        keys, values = self.key_value(memory).chunk(2, dim=-1)
        if position is not None:
            keys = keys + F.linear(position, self.key_value.weight[: self.inner])
        keys, values = self._split(keys), self._split(values)
        queries = projected.expand(memory.shape[0], -1, -1, -1)
        dropped = self.dropout if self.training else 0.0
        if trace is None:
            gathered = F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropped)
        else:
            weights = (queries @ keys.transpose(-1, -2) / math.sqrt(keys.shape[-1])).softmax(dim=-1)
            trace.note_attention(weights, values, self.out, first)
            gathered = F.dropout(weights, dropped) @ values
        gathered_heads: Tensor = self.out(gathered.transpose(1, 2).flatten(2))
        return gathered_heads

    def _split(self, tokens: Tensor) -> Tensor:
        """(B, S, heads · d) to (B, heads, S, d)."""
        batch, count, width = tokens.shape
        return tokens.view(batch, count, self.heads, width // self.heads).transpose(1, 2)


class FeedForward(nn.Module):
    """x ← LN(x + W₂ · act(W₁ · x)), or with `norm_first` x ← x + W₂ · act(W₁ · LN(x)); `activation` names act."""

    def __init__(
        self, width: int, hidden: int, dropout: float, activation: str = "relu", norm_first: bool = False
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.activate, self.gate = ACTIVATIONS[activation], GATES[activation]
        self.expand = nn.Linear(width, hidden)
        self.contract = nn.Linear(hidden, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        for linear in (self.expand, self.contract):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, tokens: Tensor, trace: Trace | None = None) -> Tensor:
        """Map (…, D) to (…, D)."""
        read = self.norm(tokens) if self.norm_first else tokens
        hidden = self.dropout(self.activate(self.expand(read)))
        summed: Tensor = tokens + self.dropout(self.contract(hidden))
        if trace is not None:
            norm = self.norm if self.norm_first else None
            trace.note_feed_forward(self.expand, self.contract, tokens, self.gate, norm)
        return summed if self.norm_first else _normed(self.norm, summed, trace)


class SelfAttention(nn.Module):
    """x ← LN(x + attention(x + p, x + p, x)) with positions p, or with `norm_first` x ← x + attention of LN(x)."""

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float,
        *,
        head_width: int | None = None,
        bias: bool = True,
        attention_dropout: float = 0.0,
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attention = Attention(width, heads, head_width, bias, attention_dropout)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        tokens: Tensor,
        position: Tensor | None = None,
        first: int | None = None,
        trace: Trace | None = None,
        queries: int | None = None,
    ) -> Tensor:
        """Map (B, S, D) to (B, S, D), or to (B, first, D) if later tokens are not needed.

        `queries` says how many of the tokens are queries, if the others are the image's: then a trace notes what
        queries read of the image. What they read of each other is not followed.
        """
        read = self.norm(tokens) if self.norm_first else tokens
        asking = read[:, :first]
        projected = self.attention.project(asking if position is None else asking + position[:first])
        gathered = self.attention(projected, read, position, None if queries is None else trace, queries or 0)
        summed: Tensor = tokens[:, :first] + self.dropout(gathered)
        return summed if self.norm_first else _normed(self.norm, summed, trace)


def _normed(norm: nn.LayerNorm, summed: Tensor, trace: Trace | None) -> Tensor:
    """Normalise (…, D), and note it in a trace if there is one."""
    if trace is not None:
        trace.note_norm(norm, summed)
    normed: Tensor = norm(summed)
    return normed


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward. The options are those of the two."""

    def __init__(
        self,
        width: int,
        heads: int,
        feed_forward: int,
        dropout: float,
        *,
        head_width: int | None = None,
        bias: bool = True,
        attention_dropout: float = 0.0,
        activation: str = "relu",
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        self.self_attention = SelfAttention(
            width,
            heads,
            dropout,
            head_width=head_width,
            bias=bias,
            attention_dropout=attention_dropout,
            norm_first=norm_first,
        )
        self.feed_forward = FeedForward(width, feed_forward, dropout, activation, norm_first)

    def forward(
        self,
        tokens: Tensor,
        position: Tensor | None = None,
        first: int | None = None,
        trace: Trace | None = None,
        queries: int | None = None,
    ) -> Tensor:
        """Map (B, S, D) to (B, S, D), or to (B, first, D)."""
        encoded: Tensor = self.feed_forward(self.self_attention(tokens, position, first, trace, queries), trace)
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


def check_sizes(
    width: int,
    attention_heads: int,
    feed_forward: int | None,
    positions: bool,
    dropout: float,
    attention_dropout: float,
    head_width: int | None = None,
) -> int:
    """Check the options that every decoder has, and give the hidden width of its feed-forward layers."""
    check_whole("head option decoder.attention_heads", attention_heads, 1)
    check_number("head option decoder.dropout", dropout, 0.0, 1.0, below=True)
    check_number("head option decoder.attention_dropout", attention_dropout, 0.0, 1.0, below=True)
    if feed_forward is not None:
        check_whole("head option decoder.feed_forward", feed_forward, 1)
    if head_width is not None:
        check_whole("head option decoder.head_width", head_width, 1)
    elif width % attention_heads:
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
