"""The pooled head: global average pooling and one linear layer."""

from torch import Tensor, nn

from tagloom.models.heads.pooling import mean_pool
from tagloom.models.heads.scale import FeatureScale


class PooledHead(nn.Module):
    """Pool and one linear layer: the baseline of every paper, and on a frozen backbone the linear probe.

    logits = W · standardise(mean over positions) + b.
    """

    stages: tuple[int, ...] = ()
    summary = ("pooled",)

    def __init__(self, in_channels: int, classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.scales = nn.ModuleList([FeatureScale(in_channels)])
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(in_channels, classes)
        # From zero every class starts at the same score; a random start only has to be unlearned.
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Map features (B, C, H, W) to logits (B, N)."""
        return self.classify(*self.summarise(features))

    def summarise(self, features: Tensor) -> tuple[Tensor, ...]:
        """Average (B, C, H, W) over its positions to (B, C)."""
        return (mean_pool(features),)

    def classify(self, pooled: Tensor) -> Tensor:
        """Map pooled features (B, C) to logits (B, N)."""
        logits: Tensor = self.linear(self.dropout(self.scales[0](pooled)))
        return logits
