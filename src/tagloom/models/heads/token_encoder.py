"""The decoder "tokens": class tokens and image tokens together through an encoder."""

import torch
from torch import Tensor, nn

from tagloom.checks import check_choice, check_whole
from tagloom.models.heads.decoder import Decoder
from tagloom.models.heads.memo import Memo
from tagloom.models.heads.options import MAX_LAYERS
from tagloom.models.heads.trace import Trace
from tagloom.models.heads.transformer import ACTIVATIONS, EncoderLayer, check_sizes, memory_positions


class TokenEncoder(Decoder):
    """Class tokens and image tokens together through encoder layers, read out at the class tokens.

    This is the "backbone + TF" of CPSD (Xu et al., 2022, section 4.1): [queries, E + s] → encoder → the first K. The
    last layer computes only the class tokens, since no other token is read.

    Args:
        width: D.
        encoder_layers: Layers.
        attention_heads: Heads of every attention; must divide the width unless `head_width` is given.
        head_width: Width of each head; None for D / heads.
        attention_bias: Whether queries, keys and values have biases.
        feed_forward: Hidden width of feed-forward layers; None for 4 D.
        activation: Of feed-forward layers, "relu" or "gelu".
        norm_first: Whether layers normalise what they read (pre-norm), not what they give (post-norm).
        positions: Whether the keys of image tokens carry 2-D sine positions.
        dropout: On residual branches and in feed-forward layers.
        attention_dropout: On attention weights.
    """

    def __init__(
        self,
        width: int,
        *,
        encoder_layers: int = 3,
        attention_heads: int = 8,
        head_width: int | None = None,
        attention_bias: bool = True,
        feed_forward: int | None = 2048,
        activation: str = "relu",
        norm_first: bool = False,
        positions: bool = False,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_whole("head option decoder.encoder_layers", encoder_layers, 1, MAX_LAYERS)
        check_choice("head option decoder.activation", activation, ACTIVATIONS)
        hidden = check_sizes(width, attention_heads, feed_forward, positions, dropout, attention_dropout, head_width)
        self.positions = positions
        self.layers = nn.ModuleList(
            EncoderLayer(
                width,
                attention_heads,
                hidden,
                dropout,
                head_width=head_width,
                bias=attention_bias,
                attention_dropout=attention_dropout,
                activation=activation,
                norm_first=norm_first,
            )
            for _ in range(encoder_layers)
        )
        self._tokens: Memo[tuple[Tensor]] = Memo()

    def forward(
        self,
        queries: nn.Module,
        memory: Tensor,
        grid: tuple[int, int],
        trace: Trace | None = None,
        words: Tensor | None = None,
    ) -> Tensor:
        """Map memory (B, S, D) to class tokens (B, K, D)."""
        sources = [*queries.parameters(), *queries.buffers(), *([] if words is None else [words])]
        (vectors,) = self._tokens(sources, lambda: (queries(words),))
        count = len(vectors)
        tokens = torch.cat([vectors.expand(memory.shape[0], -1, -1), memory], dim=1)
        position = None
        if self.positions:
            position = torch.cat([torch.zeros_like(vectors), memory_positions(grid, memory)])
        for number, layer in enumerate(self.layers, start=1):
            tokens = layer(tokens, position, count if number == len(self.layers) else None, trace, count)
        return tokens

    def train(self, mode: bool = True) -> "TokenEncoder":
        """Set the mode, and forget what was computed for the weights."""
        self._tokens.clear()
        return super().train(mode)
