"""The query head: queries x decoder x readout."""

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor, nn

from tagloom.errors import TagloomError
from tagloom.models.heads.decoder import Decoder
from tagloom.models.heads.experts import HybridSharingReadout
from tagloom.models.heads.memo import Memo
from tagloom.models.heads.pooling import StagePooling
from tagloom.models.heads.queries import JoinedWordQueries, WordQueries
from tagloom.models.heads.readout import SharedReadout, WordReadout
from tagloom.models.heads.scale import FeatureScale


class QueryHead(nn.Module):
    """E = embed(standardise(features)); logits = readout(decoder(queries, E)).

    The three parts fit each other when the queries are as many as the readout reads; `presets` composes them. Every
    pooled stage p_s becomes one more token W_s · standardise(p_s) + b_s after those of the map, rectified as they are.

    Attributes:
        words: (K, g, d_w) the words of the classes, query by query, zeros where a group has fewer than g; None for a
            head without words. They are saved with the head and never trained.
        word_places: (N,) where the word of each class is among the K · g.
        takes_words: Whether `classify` takes other words than these.
    """

    words: Tensor | None
    word_places: Tensor | None

    def __init__(
        self,
        in_channels: int,
        width: int,
        queries: nn.Module,
        decoder: nn.Module,
        readout: nn.Module,
        *,
        rectify: bool,
        feature_dropout: float,
        poolings: Sequence[StagePooling] = (),
        words: Tensor | None = None,
        word_places: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.poolings = tuple(poolings)
        self.stages = tuple(kept.stage for kept in poolings)
        self.summary = ("map", *(kept.name for kept in poolings))
        self.scales = nn.ModuleList(
            [FeatureScale(channels) for channels in (in_channels, *(kept.values for kept in poolings))]
        )
        self.feature_dropout = nn.Dropout2d(feature_dropout)
        self.embed = nn.Linear(in_channels, width)
        self.embed_stages = nn.ModuleList([nn.Linear(kept.values, width) for kept in poolings])
        self.rectify = nn.ReLU(inplace=True) if rectify else nn.Identity()
        self.queries = queries
        self.decoder = decoder
        self.readout = readout
        self.register_buffer("words", words)
        self.register_buffer("word_places", word_places, persistent=False)
        # Where queries look at each other, a label's score would depend on what else is asked for.
        apart = isinstance(decoder, Decoder) and not decoder.self_attention
        self.takes_words = words is not None and apart and isinstance(readout, SharedReadout | WordReadout)
        self._embedding: Memo[tuple[Tensor, Tensor]] = Memo()

    def forward(self, features: Tensor, *stages: Tensor) -> Tensor:
        """Map features (B, C, H, W) and the maps (B, C_s, H_s, W_s) of `stages` to logits (B, N)."""
        return self.classify(*self.summarise(features, *stages))

    def summarise(self, features: Tensor, *stages: Tensor) -> tuple[Tensor, ...]:
        """Give the feature map (B, C, H, W) as it is, since attention needs every place, and pool the stages."""
        pairs = zip(self.poolings, stages, strict=True)
        return (features, *(kept.pool(stage) for kept, stage in pairs))

    def classify(self, features: Tensor, *stages: Tensor, words: Tensor | None = None) -> Tensor:
        """Map features (B, C, H, W) and pooled stages (B, P_s) to logits (B, N).

        Args:
            features: (B, C, H, W).
            stages: Pooled stages (B, P_s).
            words: (K', g, d_w) other words than those of the classes, for a head that `takes_words`; then logits are
                (B, K' · g), in the order of the words.
        """
        if words is None:
            return self._read(self._decode(features, *stages))
        if not self.takes_words:
            raise TagloomError("this head knows its own classes only: take 'ml-decoder-words' for any words.")
        tokens = self._decode(features, *stages, words=words)
        logits: Tensor = cast(WordReadout, self.readout).read_all(tokens, words)
        return logits

    def class_words(self) -> Tensor:
        """Give the word of each class, (N, d_w), in the order of the classes."""
        if self.words is None or self.word_places is None:
            raise TagloomError("this head has no words.")
        return self.words.flatten(0, 1).index_select(0, self.word_places)

    @property
    def fixed_queries(self) -> int | None:
        """How many queries there always are; None where queries are words, in any number."""
        words = isinstance(self.queries, WordQueries | JoinedWordQueries)
        return None if words else cast(int, self.readout.queries)

    def attention(self, features: Tensor, *stages: Tensor) -> list[Tensor]:
        """Show where each query looks.

        Args:
            features: (B, C, H, W).
            stages: Pooled stages (B, P_s), the rest of `summarise`.

        Returns:
            Per layer that reads the image (B, heads, K, H * W + S), places in row order, then the S stages.
        """
        maps: list[Tensor] = []
        self._decode(features, *stages, maps=maps)
        return maps

    def gate_weights(self, features: Tensor, *stages: Tensor) -> list[Tensor]:
        """Show which experts each label listens to, where the readout is hybrid sharing.

        Args:
            features: (B, C, H, W).
            stages: Pooled stages (B, P_s), the rest of `summarise`.

        Returns:
            Per layer (B, N, n_t + n_s), a label's own experts first.
        """
        if not isinstance(self.readout, HybridSharingReadout):
            raise TagloomError("this head has no experts: make it with readout='hybrid-sharing'.")
        return self.readout.gate_weights(self._decode(features, *stages))

    def _decode(
        self, features: Tensor, *stages: Tensor, maps: list[Tensor] | None = None, words: Tensor | None = None
    ) -> Tensor:
        """Give tokens (B, K, D), of the classes or of other words."""
        memory, grid = self._memory(features, *stages)
        tokens: Tensor = self.decoder(self.queries, memory, grid, maps, self.words if words is None else words)
        return tokens

    def _read(self, tokens: Tensor) -> Tensor:
        """Map the tokens (B, K, D) of the classes to logits (B, N)."""
        inputs = (tokens, self.words) if isinstance(self.readout, WordReadout) else (tokens,)
        logits: Tensor = self.readout(*inputs)
        return logits

    def _memory(self, features: Tensor, *stages: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """Embed features and pooled stages as tokens (B, H * W + S, D); gives the grid (H, W) along with them."""
        tokens = self._embed(features)
        if stages or self.poolings:
            parts = zip(self.embed_stages, self.scales[1:], stages, strict=True)
            hints = [embed(scale(vector)) for embed, scale, vector in parts]
            tokens = torch.cat([tokens, torch.stack(hints, dim=1)], dim=1)
        return self.rectify(tokens), (features.shape[2], features.shape[3])

    def _embed(self, features: Tensor) -> Tensor:
        """Standardise and embed features (B, C, H, W): gives (B, H * W, D)."""
        if self.training:
            embedded: Tensor = self.embed(_tokens(self.feature_dropout(self.scales[0](features))))
            return embedded
        # Standardising is linear, so without dropout it goes into the embedding's weights, once per weights.
        sources = [*self.embed.parameters(), *self.scales[0].buffers()]
        weight, bias = self._embedding(sources, self._standardising_embedding)
        return F.linear(_tokens(features.to(weight.dtype)), weight, bias)

    def _standardising_embedding(self) -> tuple[Tensor, Tensor]:
        """W (x − m) / d + b = (W / d) x + (b − (W / d) m)."""
        scale = cast(FeatureScale, self.scales[0])
        weight = self.embed.weight / scale.deviation
        return weight, self.embed.bias - weight @ scale.mean

    def train(self, mode: bool = True) -> "QueryHead":
        """Set the mode, and forget what was kept."""
        self._embedding.clear()
        return super().train(mode)


def _tokens(features: Tensor) -> Tensor:
    """Lay (B, C, H, W) out as (B, H * W, C): of a channels-last map this is a contiguous view."""
    return features.flatten(2).transpose(1, 2)
