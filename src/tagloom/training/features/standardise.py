"""Fitting a head's feature scales to the training images, before the first step on a frozen backbone."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from tagloom.cores import usable_cores
from tagloom.data.reading import read_pictures
from tagloom.models.heads.scale import FeatureScale
from tagloom.models.network import TaggerNetwork
from tagloom.training.features.cache import CachedFeatures
from tagloom.training.features.picture_batches import PictureBatches
from tagloom.training.features.stored import as_stored

SAMPLE_IMAGES = 2048  # enough for a mean and a deviation per channel
BLOCK_IMAGES = 256
Summaries = list[NDArray[Any]]
"""The tensors of a summary, (images, …) each."""


def standardise_features(network: TaggerNetwork, features: CachedFeatures, seed: int) -> None:
    """Fit the head's scales to a sample of cached features; those that a tail computes are as yet untrained."""
    network.eval()
    device = network.backbone.mean.device

    def summaries(rows: NDArray[np.int64]) -> Summaries:
        kept = features.gather(rows)
        if network.backbone.cut is None:
            return kept
        with torch.no_grad():
            found = network.summary_of_kept(*(torch.from_numpy(tensor).float().to(device) for tensor in kept))
        return as_stored([tensor.cpu().numpy() for tensor in found])  # maps in half precision: many are held at once

    _fit_scales(network, summaries, len(features), seed)


def standardise_pictures(network: TaggerNetwork, batches: PictureBatches, seed: int, device: torch.device) -> None:
    """Fit the head's scales to a sample of pictures, unaugmented, which go through the frozen backbone for it."""
    network.to(device)

    def summaries(rows: NDArray[np.int64]) -> Summaries:
        images = (batches.table.image(row) for row in rows.tolist())
        with torch.no_grad():
            found = [
                [value.cpu().numpy() for value in network.summarise(torch.from_numpy(batch.pixels).to(device))]
                for batch in read_pictures(images, batches.preprocess, threads=usable_cores())
            ]
        return [np.concatenate(tensors) for tensors in zip(*found, strict=True)]

    _fit_scales(network, summaries, len(batches.table), seed)


def _fit_scales(
    network: TaggerNetwork, gather: Callable[[NDArray[np.int64]], Summaries], count: int, seed: int
) -> None:
    """Fit each scale to its summary tensor, over the same sample of `count` rows."""
    rows = np.sort(np.random.default_rng(seed).permutation(count)[:SAMPLE_IMAGES])
    blocks = [gather(rows[first : first + BLOCK_IMAGES]) for first in range(0, len(rows), BLOCK_IMAGES)]
    for tensor, scale in enumerate(network.head.scales):
        cast(FeatureScale, scale).fit(torch.from_numpy(block[tensor]) for block in blocks)
