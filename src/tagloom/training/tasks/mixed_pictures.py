"""Mixing the pictures of a batch with each other: mixup (Zhang et al., 2018) and CutMix (Yun et al., 2019)."""

import torch
from torch import Tensor

from tagloom.training.features.batches import Batch
from tagloom.training.tasks.supervised import Task

VISIBLE_SHARE = 0.2
"""A picture's labels count if it makes up more than this share of the mixed picture."""


class MixedPicturesTask:
    """Another task, on pictures that are mixed first.

    All random draws come from torch's generator, which the loop seeds again for every step, so a resumed run repeats
    them.

    Args:
        task: What is done with the mixed batch.
        mixup: α of the Beta distribution of the share in which two pictures are blended; 0 for no mixup.
        cutmix: α of the Beta distribution of the share that is pasted over; 0 for no CutMix. With both, each is used
            half of the time.
        competing: Whether classes compete for one label per image: then targets are shares that sum to 1. Otherwise
            each class has its own target, which is 1 for all labels of both pictures.
    """

    def __init__(self, task: Task, *, mixup: float, cutmix: float, competing: bool) -> None:
        self.task = task
        self.mixup = mixup
        self.cutmix = cutmix
        self.competing = competing

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        """Run the task on the batch, mixed with itself in another order."""
        pasted = self.cutmix > 0 and (self.mixup == 0 or bool(torch.rand(()) < 0.5))
        alpha = torch.tensor(self.cutmix if pasted else self.mixup)
        share = float(torch.distributions.Beta(alpha, alpha).sample())
        other = torch.randperm(len(batch.rows)).to(batch.targets.device)
        (pictures,) = batch.inputs
        if pasted:
            mixed, share = paste(pictures, pictures[other], share, torch.rand(2))
        else:
            mixed = torch.lerp(pictures[other].float(), pictures.float(), share)
        targets, known = mix_targets(batch.targets, batch.known, other, share, competing=self.competing)
        return self.task(Batch((mixed,), targets, known, batch.rows, batch.view))


def paste(pictures: Tensor, others: Tensor, share: float, centre: Tensor) -> tuple[Tensor, float]:
    """Paste a box of each other picture over the same area of a picture.

    Args:
        pictures: (B, H, W, 3).
        others: (B, H, W, 3).
        share: The share of the area that should be left of `pictures`.
        centre: (2,) from 0 to 1, the middle of the box; what falls outside the picture is lost.

    Returns:
        The mixed pictures, and the share that is actually left of `pictures`.
    """
    sides = pictures.shape[1:3]
    edges = []
    for side, middle in zip(sides, centre.tolist(), strict=True):
        half = side * (1 - share) ** 0.5 / 2
        edges.append(slice(max(0, round(middle * side - half)), min(side, round(middle * side + half))))
    mixed = pictures.clone()
    mixed[:, edges[0], edges[1]] = others[:, edges[0], edges[1]]
    covered = (edges[0].stop - edges[0].start) * (edges[1].stop - edges[1].start)
    return mixed, 1 - covered / (sides[0] * sides[1])


def mix_targets(
    targets: Tensor, known: Tensor | None, other: Tensor, share: float, *, competing: bool
) -> tuple[Tensor, Tensor | None]:
    """Give the targets and known pairs of mixed pictures.

    Args:
        targets: (B, N), 1 for positive.
        known: (B, N) bool; None where all are known.
        other: (B,), the index of the picture that each is mixed with.
        share: The share that is left of each picture itself.
        competing: Whether targets are shares, rather than 1 for the labels of both.

    >>> mix_targets(torch.eye(2), None, torch.tensor([1, 0]), 0.75, competing=False)[0].tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    shares = torch.lerp(targets[other], targets, share)
    mixed = shares if competing else (shares > VISIBLE_SHARE).to(targets.dtype)
    if known is not None:  # a label that one of the two is known to have, the mixed picture has too
        known = (known & known[other]) | (mixed > 0)
    return mixed, known
