"""The query head: queries x decoder x readout."""

from torch import Tensor, nn

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

    def _memory(self, features: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """Embed features (B, C, H, W) as tokens (B, H * W, D); gives the grid (H, W) along with them."""
        features = self.feature_dropout(self.scales[0](features))
        tokens = features.flatten(2).transpose(1, 2)  # of a channels-last map this is a contiguous view
        return self.rectify(self.embed(tokens)), (features.shape[2], features.shape[3])
