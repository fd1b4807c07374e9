"""Decoders: queries and image tokens in, one token per query out.

A decoder is called with the module that gives the queries, the memory (B, S, D) and the (rows, columns) of its grid,
and gives tokens (B, K, D). Given `words` (K, g, d_w), it asks for the queries of these words. Given a list `maps`, it
adds to it the attention (B, heads, K, S) of each layer that reads the image.
"""

from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor, nn

from tagloom.errors import RecipeError, unknown_name
from tagloom.models.heads.attention import sine_positions
from tagloom.models.heads.layers import DecoderLayer, EncoderLayer, SelfAttention, SelfNorm
from tagloom.models.heads.memo import Memo

DECODER_NAMES = ("cross-attention", "self-attention", "tokens")


class Decoder(nn.Module):
    """Encoder layers over the image's tokens, then decoder layers in which the queries read them.

    Queries enter as the target itself (ML-Decoder, Eq. 2 and 4), or as a position, DETR's and Query2Label's way: then
    the target starts at zero, the query is added to it wherever it asks, and a last norm closes the decoder.

    Until the first cross-attention no image has come in. That part is computed once for a batch, with one dropout mask
    for all its images, and in eval mode once per weights.
    """

    def __init__(
        self,
        width: int,
        *,
        attention_heads: int,
        feed_forward: int,
        dropout: float,
        encoder_layers: int,
        decoder_layers: int,
        self_attention: bool,
        queries_as_position: bool,
        positions: bool,
    ) -> None:
        super().__init__()

        def mixing(number: int) -> nn.Module | None:
            if queries_as_position and (number == 0 or not self_attention):
                return None  # a first target of zeros holds nothing to mix
            return SelfAttention(width, attention_heads, dropout) if self_attention else SelfNorm(width, dropout)

        self.width = width
        self.positions = positions
        self.self_attention = self_attention
        self.queries_as_position = queries_as_position
        sizes = (width, attention_heads, feed_forward, dropout)
        self.encoder = nn.ModuleList([EncoderLayer(*sizes) for _ in range(encoder_layers)])
        self.layers = nn.ModuleList([DecoderLayer(*sizes, mixing(number)) for number in range(decoder_layers)])
        self.norm = nn.LayerNorm(width) if queries_as_position else nn.Identity()
        self._asked: Memo[tuple[Tensor, Tensor, Tensor | None]] = Memo()

    def forward(
        self,
        queries: nn.Module,
        memory: Tensor,
        grid: tuple[int, int],
        maps: list[Tensor] | None = None,
        words: Tensor | None = None,
    ) -> Tensor:
        """Decode memory (B, S, D) to (B, K, D); maps are those of the cross-attentions."""
        place = _places(grid, memory) if self.positions else None
        for layer in self.encoder:
            memory = layer(memory, place)
        if self.training:
            target, projected, position = self._ask(queries, words)
        else:
            sources = self._sources(queries, words)
            target, projected, position = self._asked(sources, lambda: self._ask(queries, words))
        for number, module in enumerate(self.layers):
            layer = cast(DecoderLayer, module)
            if number > 0:
                target, projected = layer.ask(target, position)
            target = layer.answer(target, projected, memory, place, maps)
        decoded: Tensor = self.norm(target)
        return decoded

    def train(self, mode: bool = True) -> "Decoder":
        """Set the mode, and forget what was kept."""
        self._asked.clear()
        return super().train(mode)

    def _ask(self, queries: nn.Module, words: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Run the part before the image: the target, its projection, and the queries' position if they are one."""
        first = cast(DecoderLayer, self.layers[0])
        # Not a view of a parameter, which would claim to need a gradient even where none is recorded.
        vectors = torch.stack([queries(words)])
        if self.queries_as_position:
            return (*first.ask(torch.zeros_like(vectors), vectors), vectors)
        return (*first.ask(vectors, None), None)

    def _sources(self, queries: nn.Module, words: Tensor | None) -> list[Tensor]:
        """List the tensors that `_ask` reads."""
        first = cast(DecoderLayer, self.layers[0])
        parts = [queries, first.attention.query, *([] if first.mixing is None else [first.mixing])]
        held = [tensor for part in parts for tensor in (*part.parameters(), *part.buffers())]
        return held if words is None else [*held, words]


class TokenEncoder(nn.Module):
    """Class tokens and image tokens together through encoder layers, read out at the class tokens.

    This is the "backbone + TF" of CPSD (Xu et al., 2022, section 4.1): [queries, E + s] → encoder → the first K. In
    the last layer only the class tokens are computed, since nobody reads the others.
    """

    def __init__(
        self, width: int, *, attention_heads: int, feed_forward: int, dropout: float, layers: int, positions: bool
    ) -> None:
        super().__init__()
        self.width = width
        self.positions = positions
        self.layers = nn.ModuleList(
            [EncoderLayer(width, attention_heads, feed_forward, dropout) for _ in range(layers)]
        )
        self._tokens: Memo[tuple[Tensor]] = Memo()

    def forward(
        self,
        queries: nn.Module,
        memory: Tensor,
        grid: tuple[int, int],
        maps: list[Tensor] | None = None,
        words: Tensor | None = None,
    ) -> Tensor:
        """Map memory (B, S, D) to class tokens (B, K, D); a class token's map leaves out its look at other tokens."""
        sources = [*queries.parameters(), *queries.buffers(), *([] if words is None else [words])]
        (vectors,) = self._tokens(sources, lambda: (queries(words),))
        count = len(vectors)
        tokens = torch.cat([vectors.expand(memory.shape[0], -1, -1), memory], dim=1)
        position = None
        if self.positions:
            position = torch.cat([torch.zeros_like(vectors), _places(grid, memory)])
        for number, layer in enumerate(self.layers, start=1):
            tokens = layer(tokens, position, count if number == len(self.layers) else None, maps)
        if maps is not None:
            maps[:] = [weights[:, :, :count, count:] for weights in maps]
        return tokens

    def train(self, mode: bool = True) -> "TokenEncoder":
        """Set the mode, and forget what was kept."""
        self._tokens.clear()
        return super().train(mode)


def _places(grid: tuple[int, int], memory: Tensor) -> Tensor:
    """Give the positions (S, D) of memory (B, S, D): the grid's places, then zeros for tokens that have none."""
    beyond = memory.shape[1] - grid[0] * grid[1]
    return F.pad(sine_positions(*grid, memory.shape[2], memory), (0, 0, 0, beyond))


def create_decoder(
    kind: str,
    width: int,
    *,
    attention_heads: int,
    feed_forward: int,
    dropout: float,
    encoder_layers: int | None,
    decoder_layers: int | None,
    queries_as_position: bool,
    positions: bool,
) -> nn.Module:
    """Make a decoder by name.

    Args:
        kind: "cross-attention", "self-attention" (among the queries, then cross-attention), or "tokens" (queries and
            features together through encoder layers).
        width: D.
        attention_heads: Heads of every attention; must divide the width.
        feed_forward: Hidden width of feed-forward layers.
        dropout: On residual branches and in feed-forward layers.
        encoder_layers: By default none, and 3 for "tokens".
        decoder_layers: By default 1; "tokens" has none.
        queries_as_position: Whether the target starts at zero and the queries are its position.
        positions: Whether keys carry 2-D sine positions.
    """
    if kind not in DECODER_NAMES:
        raise RecipeError(unknown_name("decoder", kind, DECODER_NAMES))
    if width % attention_heads:
        raise RecipeError(f"width {width} is not divisible by attention_heads {attention_heads}: change one of them.")
    if positions and width % 4:
        raise RecipeError(
            f"width {width} is not divisible by 4, as positions need: change it, or set positions: false."
        )
    if kind == "tokens":
        if decoder_layers or queries_as_position or encoder_layers == 0:
            raise RecipeError(
                "decoder 'tokens' takes the queries through the encoder layers themselves: it needs encoder_layers, "
                "has no decoder_layers, and queries_as_position does not apply."
            )
        return TokenEncoder(
            width,
            attention_heads=attention_heads,
            feed_forward=feed_forward,
            dropout=dropout,
            layers=3 if encoder_layers is None else encoder_layers,
            positions=positions,
        )
    if decoder_layers == 0:
        raise RecipeError(f"decoder '{kind}' needs at least one of decoder_layers, or the queries never see the image.")
    return Decoder(
        width,
        attention_heads=attention_heads,
        feed_forward=feed_forward,
        dropout=dropout,
        encoder_layers=encoder_layers or 0,
        decoder_layers=decoder_layers or 1,
        self_attention=kind == "self-attention",
        queries_as_position=queries_as_position,
        positions=positions,
    )
