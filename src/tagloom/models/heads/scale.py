"""Standardising the features of a frozen backbone, channel by channel."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class FeatureScale(nn.Module):
    """x ← (x − mean) / deviation per channel; the identity until `fit` has seen features.

    The channels of a frozen backbone differ in scale by orders of magnitude, and a head that reads them raw learns
    slowly from the small ones. The two vectors are buffers: they are saved with the head and never trained.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("deviation", torch.ones(channels))

    def forward(self, features: Tensor) -> Tensor:
        """Standardise (B, C) or (B, C, H, W)."""
        shape = (1, -1) + (1,) * (features.ndim - 2)
        return (features - self.mean.view(shape)) / self.deviation.view(shape)

    @torch.no_grad()
    def fit(self, batches: Iterable[Tensor]) -> None:
        """Set mean and deviation from batches of (B, C) or (B, C, H, W) features."""
        count = 0
        total = torch.zeros_like(self.mean, dtype=torch.float64)
        square = torch.zeros_like(total)
        for batch in batches:
            rows = batch.to(total.device, torch.float64).movedim(1, -1).reshape(-1, len(total))
            count += len(rows)
            total += rows.sum(0)
            square += rows.square().sum(0)
        if count == 0:
            return
        mean = total / count
        deviation = (square / count - mean.square()).clamp_min(0).sqrt()
        self.mean.copy_(mean)
        # A channel that never changes carries nothing; dividing by its zero deviation would blow it up.
        self.deviation.copy_(torch.where(deviation > 1e-6 * deviation.max(), deviation, torch.ones_like(deviation)))
