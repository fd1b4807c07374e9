"""The layers of encoders and decoders. All are post-norm: x ← LN(x + f(x)).

Dropout is on every residual branch and inside feed-forward layers. Attention weights are not dropped: the fused kernel
does without them on every device.
"""

from torch import Tensor, nn

from tagloom.models.heads.attention import Attention


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
        """Map (B, S, D) to (B, S, D), or to (B, first, D) where nobody reads the tokens after the first ones."""
        asking = tokens[:, :first]
        projected = self.attention.project(asking if position is None else asking + position[:first])
        normed: Tensor = self.norm(asking + self.dropout(self.attention(projected, tokens, position, maps)))
        return normed


class SelfNorm(nn.Module):
    """q ← LN(q + dropout(q)): what stays of self-attention when the attention is left out (ML-Decoder)."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, position: Tensor | None = None) -> Tensor:
        """Map (B, K, D) to (B, K, D); a position plays no part."""
        normed: Tensor = self.norm(tokens + self.dropout(tokens))
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


class DecoderLayer(nn.Module):
    """q ← mix(q); q ← LN(q + attention(q + p, E + s, E)); q ← LN(q + FFN(q)), in two halves.

    `ask` is everything before the image comes in, `answer` the rest. `mixing` is `SelfAttention`, `SelfNorm` or None.
    """

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float, mixing: nn.Module | None) -> None:
        super().__init__()
        self.mixing = mixing
        self.attention = Attention(width, heads)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.feed_forward = FeedForward(width, feed_forward, dropout)

    def ask(self, target: Tensor, position: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mix the target (B or 1, K, D) and project it: gives both."""
        if self.mixing is not None:
            target = self.mixing(target, position)
        return target, self.attention.project(target if position is None else target + position)

    def answer(
        self, target: Tensor, projected: Tensor, memory: Tensor, place: Tensor | None, maps: list[Tensor] | None
    ) -> Tensor:
        """Gather from the memory (B, S, D), whose places (S, D) are added to keys: gives (B, K, D)."""
        gathered = self.attention(projected, memory, place, maps)
        answered: Tensor = self.feed_forward(self.norm(target + self.dropout(gathered)))
        return answered
