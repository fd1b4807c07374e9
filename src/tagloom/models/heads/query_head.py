"""The query head: queries x decoder x readout."""

from typing import cast

import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor, nn

from tagloom.errors import TagloomError
from tagloom.models.heads.experts import HybridSharingReadout
from tagloom.models.heads.kept import Kept
from tagloom.models.heads.scale import FeatureScale


class QueryHead(nn.Module):
    """E = embed(standardise(features)); logits = readout(decoder(queries, E)).

    The three parts fit each other when the queries are as many as the readout reads; `presets` composes them.
    """

    stages: tuple[int, ...] = ()
    summary = ("map",)

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
    ) -> None:
        super().__init__()
        self.scales = nn.ModuleList([FeatureScale(in_channels)])
        self.feature_dropout = nn.Dropout2d(feature_dropout)
        self.embed = nn.Linear(in_channels, width)
        self.rectify = nn.ReLU(inplace=True) if rectify else nn.Identity()
        self.queries = queries
        self.decoder = decoder
        self.readout = readout
        self._embedding: Kept[tuple[Tensor, Tensor]] = Kept()

    def forward(self, features: Tensor) -> Tensor:
        """Map features (B, C, H, W) to logits (B, N)."""
        return self.classify(*self.summarise(features))

    def summarise(self, features: Tensor) -> tuple[Tensor, ...]:
        """Give the feature map (B, C, H, W) as it is: attention needs every place."""
        return (features,)

    def classify(self, features: Tensor) -> Tensor:
        """Map features (B, C, H, W) to logits (B, N)."""
        logits: Tensor = self.readout(self.decoder(self.queries, *self._memory(features)))
        return logits

    def attention(self, features: Tensor) -> list[Tensor]:
        """Show where each query looks.

        Args:
            features: (B, C, H, W).

        Returns:
            Per layer that reads the image (B, heads, K, H * W), places in row order.
        """
        maps: list[Tensor] = []
        self.decoder(self.queries, *self._memory(features), maps)
        return maps

    def gate_weights(self, features: Tensor) -> list[Tensor]:
        """Show which experts each label listens to, where the readout is hybrid sharing.

        Args:
            features: (B, C, H, W).

        Returns:
            Per layer (B, N, n_t + n_s), a label's own experts first.
        """
        if not isinstance(self.readout, HybridSharingReadout):
            raise TagloomError("this head has no experts: make it with readout='hybrid-sharing'.")
        return self.readout.gate_weights(self.decoder(self.queries, *self._memory(features)))

    def _memory(self, features: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """Embed features (B, C, H, W) as tokens (B, H * W, D); gives the grid (H, W) along with them."""
        grid = (features.shape[2], features.shape[3])
        if self.training:
            features = self.feature_dropout(self.scales[0](features))
            return self.rectify(self.embed(_tokens(features))), grid
        # Standardising is linear, so without dropout it goes into the embedding's weights, once per weights.
        sources = [*self.embed.parameters(), *self.scales[0].buffers()]
        weight, bias = self._embedding(sources, self._standardising_embedding)
        return self.rectify(F.linear(_tokens(features.to(weight.dtype)), weight, bias)), grid

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
