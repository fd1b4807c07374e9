"""Decoders: queries and image tokens in, one token per query out.

A decoder is called with the module that makes the queries, the memory (B, S, D) and the (rows, columns) of its grid,
and gives tokens (B, K, D). With `words` (K, g, d_w) it asks for the queries of these words. A `trace` notes what each
layer that reads the image did.
"""

from typing import cast

import torch
from torch import Tensor, nn

from tagloom.checks import check_whole
from tagloom.models.heads.memo import Memo
from tagloom.models.heads.options import MAX_LAYERS
from tagloom.models.heads.trace import Trace
from tagloom.models.heads.transformer import (
    Attention,
    EncoderLayer,
    FeedForward,
    SelfAttention,
    check_sizes,
    memory_positions,
)


class Decoder(nn.Module):
    """What a query head calls.

    Attributes:
        scores_apart: Whether a query's token does not depend on the other queries.
    """

    scores_apart: bool = False

    def forward(
        self,
        queries: nn.Module,
        memory: Tensor,
        grid: tuple[int, int],
        trace: Trace | None = None,
        words: Tensor | None = None,
    ) -> Tensor:
        """Decode memory (B, S, D) to (B, K, D)."""
        raise NotImplementedError


class CrossAttentionDecoder(Decoder):
    """Encoder layers over the image's tokens, then decoder layers in which the queries read them.

    Queries enter as the target itself (ML-Decoder, Eq. 2 and 4), or as a position, as in DETR and Query2Label: then the
    target starts at zero, the query is added to it wherever it asks, and a last norm closes the decoder.

    Everything before the first cross-attention is independent of the image. It is computed once for a batch, with one
    dropout mask for all its images unless `dropout_per_image`, and in eval mode once per weights.

    Args:
        width: D.
        layers: Decoder layers.
        encoder_layers: Self-attention layers over the image's tokens.
        attention_heads: Heads of every attention; must divide the width.
        feed_forward: Hidden width of feed-forward layers; None for 4 D.
        queries_as_position: Whether the target starts at zero and the queries are its position.
        positions: Whether keys carry 2-D sine positions.
        dropout: On residual branches and in feed-forward layers.
        attention_dropout: On attention weights; 0.1 in the released code of ML-Decoder and Query2Label.
        dropout_per_image: Whether the part before the image has a dropout mask for each image, as in that code, at the
            cost of running it for each.
    """

    scores_apart = True
    mixes_queries = False

    def __init__(
        self,
        width: int,
        *,
        layers: int = 1,
        encoder_layers: int = 0,
        attention_heads: int = 8,
        feed_forward: int | None = 2048,
        queries_as_position: bool = False,
        positions: bool = False,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        dropout_per_image: bool = False,
    ) -> None:
        super().__init__()
        check_whole("head option decoder.layers", layers, 1, MAX_LAYERS)
        check_whole("head option decoder.encoder_layers", encoder_layers, 0, MAX_LAYERS)
        hidden = check_sizes(width, attention_heads, feed_forward, positions, dropout, attention_dropout)

        def mixing(number: int) -> nn.Module | None:
            if queries_as_position and (number == 0 or not self.mixes_queries):
                return None  # a first target of zeros holds nothing to mix
            if not self.mixes_queries:
                return SelfNorm(width, dropout)
            return SelfAttention(width, attention_heads, dropout, attention_dropout=attention_dropout)

        self.positions = positions
        self.queries_as_position = queries_as_position
        self.dropout_per_image = dropout_per_image
        sizes = (width, attention_heads, hidden, dropout)
        self.encoder = nn.ModuleList(
            [EncoderLayer(*sizes, attention_dropout=attention_dropout) for _ in range(encoder_layers)]
        )
        self.layers = nn.ModuleList(
            [DecoderLayer(*sizes, attention_dropout, mixing(number)) for number in range(layers)]
        )
        self.norm = nn.LayerNorm(width) if queries_as_position else nn.Identity()
        self._asked: Memo[tuple[Tensor, Tensor, Tensor | None]] = Memo()

    def forward(
        self,
        queries: nn.Module,
        memory: Tensor,
        grid: tuple[int, int],
        trace: Trace | None = None,
        words: Tensor | None = None,
    ) -> Tensor:
        """Decode memory (B, S, D) to (B, K, D)."""
        position = memory_positions(grid, memory) if self.positions else None
        for layer in self.encoder:
            memory = layer(memory, position)
        if self.training:
            rows = memory.shape[0] if self.dropout_per_image else 1
            target, projected, query_position = self._ask(queries, words, rows)
        else:
            sources = self._sources(queries, words)
            target, projected, query_position = self._asked(sources, lambda: self._ask(queries, words))
        for number, module in enumerate(self.layers):
            layer = cast(DecoderLayer, module)
            if number > 0:
                target, projected = layer.ask(target, query_position, trace)
            target = layer.answer(target, projected, memory, position, trace)
        if trace is not None and isinstance(self.norm, nn.LayerNorm):
            trace.note_norm(self.norm, target)
        decoded: Tensor = self.norm(target)
        return decoded

    def train(self, mode: bool = True) -> "CrossAttentionDecoder":
        """Set the mode, and forget what was computed for the weights."""
        self._asked.clear()
        return super().train(mode)

    def _ask(self, queries: nn.Module, words: Tensor | None, rows: int = 1) -> tuple[Tensor, Tensor, Tensor | None]:
        """Run the part before the image, in so many rows: the target, its projection, and queries as a position."""
        first = cast(DecoderLayer, self.layers[0])
        # Not a view of a parameter, which would claim to need a gradient even where none is recorded.
        vectors = torch.stack([queries(words)]).expand(rows, -1, -1)
        if self.queries_as_position:
            return (*first.ask(torch.zeros_like(vectors), vectors), vectors)
        return (*first.ask(vectors, None), None)

    def _sources(self, queries: nn.Module, words: Tensor | None) -> list[Tensor]:
        """List the tensors that `_ask` reads."""
        first = cast(DecoderLayer, self.layers[0])
        parts = [queries, first.attention.query, *([] if first.mixing is None else [first.mixing])]
        held = [tensor for part in parts for tensor in (*part.parameters(), *part.buffers())]
        return held if words is None else [*held, words]


class SelfAttentionDecoder(CrossAttentionDecoder):
    """A `CrossAttentionDecoder` whose queries first attend to each other in every layer."""

    scores_apart = False
    mixes_queries = True


class DecoderLayer(nn.Module):
    """q ← mix(q); q ← LN(q + attention(q + p, E + s, E)); q ← LN(q + FFN(q)), in two halves.

    `ask` is everything before the image comes in, `answer` the rest. `mixing` is `SelfAttention`, `SelfNorm` or None.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        feed_forward: int,
        dropout: float,
        attention_dropout: float,
        mixing: nn.Module | None,
    ) -> None:
        super().__init__()
        self.mixing = mixing
        self.attention = Attention(width, heads, dropout=attention_dropout)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.feed_forward = FeedForward(width, feed_forward, dropout)

    def ask(self, target: Tensor, query_position: Tensor | None, trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """Mix the target (B or 1, K, D) and project it: gives both."""
        if self.mixing is not None:
            target = self.mixing(target, query_position, trace=trace)
        return target, self.attention.project(target if query_position is None else target + query_position)

    def answer(
        self, target: Tensor, projected: Tensor, memory: Tensor, position: Tensor | None, trace: Trace | None
    ) -> Tensor:
        """Gather from the memory (B, S, D), whose positions (S, D) are added to keys: gives (B, K, D)."""
        summed = target + self.dropout(self.attention(projected, memory, position, trace))
        if trace is not None:
            trace.note_norm(self.norm, summed)
        answered: Tensor = self.feed_forward(self.norm(summed), trace)
        return answered


class SelfNorm(nn.Module):
    """q ← LN(q + dropout(q)): what remains of self-attention without the attention (ML-Decoder)."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, query_position: Tensor | None = None, trace: Trace | None = None) -> Tensor:
        """Map (B, K, D) to (B, K, D); a position has no effect."""
        summed = tokens + self.dropout(tokens)
        if trace is not None:
            trace.note_norm(self.norm, summed, times=2.0)
        normed: Tensor = self.norm(summed)
        return normed
