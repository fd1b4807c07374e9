"""The pooled head: global average pooling and one linear layer."""

from torch import Tensor, nn

from tagloom.checks import check_number
from tagloom.models.heads.head import Head
from tagloom.models.heads.pooling import class_activation, mean_pool
from tagloom.models.heads.scale import FeatureScale


class PooledHead(Head):
    """Pool and one linear layer: the baseline of every paper, and on a frozen backbone the linear probe.

    logits = W · standardise(mean over positions) + b.

    Args:
        in_channels: Channels C of the feature map.
        classes: Number of classes N.
        dropout: On what the linear layer reads.
    """

    summary = ("pooled",)

    def __init__(self, in_channels: int, classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_number("head option dropout", dropout, 0.0, 1.0, below=True)
        self.scales = nn.ModuleList([FeatureScale(in_channels)])
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(in_channels, classes)
        # From zero every class starts at the same score; a random start only has to be unlearned.
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def summarise(self, features: Tensor, *stages: Tensor) -> tuple[Tensor, ...]:
        """Average (B, C, H, W) over its positions to (B, C)."""
        return (mean_pool(features),)

    def evidence(self, features: Tensor, *stages: Tensor, words: Tensor | None = None) -> Tensor:
        """Apply the linear layer at each position instead of to their mean (CAM, Zhou et al., 2016): (B, N, H, W)."""
        self.refuse_words(words)
        return class_activation(features, self.scales[0], self.linear.weight)

    def classify(self, pooled: Tensor, *stages: Tensor, words: Tensor | None = None) -> Tensor:
        """Map pooled features (B, C) to logits (B, N)."""
        self.refuse_words(words)
        logits: Tensor = self.linear(self.dropout(self.scales[0](pooled)))
        return logits
