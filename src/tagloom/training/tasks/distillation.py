"""Distillation's pure functions: merging the teachers of a partition, and the loss of a student that follows them.

From CPSD (Xu et al., "Boosting Multi-Label Image Classification with Complementary Parallel Self-Distillation", 3.3).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tagloom.errors import TaggerError
from tagloom.losses import Loss
from tagloom.progress import Progress, no_progress
from tagloom.training.features.batches import Batch
from tagloom.training.features.feature_batches import FeatureBatches
from tagloom.training.tasks.supervised import Forward
from tagloom.wording import listed

TeacherLogits = Callable[[Batch], Tensor]
"""From a batch to the teachers' logits (B, N), in the student's order of classes."""


@dataclass(frozen=True)
class TeacherGroup:
    """All teachers of one kind, merged.

    Attributes:
        logits: Their logits for a batch.
        weight: How much the distance to them counts.
        parts: (N, k), 1 where a class belongs to a part, if each teacher learned only from images with one of its
            classes; None if all learned from all images.
    """

    logits: TeacherLogits
    weight: float = 1.0
    parts: Tensor | None = None


class Teaching(NamedTuple):
    """What a student has of its teachers.

    Attributes:
        groups: All teachers, merged by kind.
        metrics: How good they are, for the student's own metrics.
    """

    groups: Mapping[str, TeacherGroup]
    metrics: dict[str, dict[str, Any]]


class DistillTask:
    """Training with teachers: loss + ½ Σ_g w_g ‖s − t_g‖², with s the student's logits and t_g those of a kind g.

    With the kinds "co" and "dis" and weights of 1 this is the paper's Eq. 6 and 7, except for one factor: both of its
    terms are sums over images, both of ours are means over the images of the batch, as all losses here are. So neither
    the ratio of the two terms nor the size of a step depends on the batch size. The square is summed over all classes
    that a teacher is heard on: those of the teachers that learned from images like this one (x ∈ X_C in Eq. 5), whether
    the pair is known or not. Where it is unknown, the student learns from the teachers alone.
    """

    def __init__(self, forward: Forward, loss: Loss, teachers: Mapping[str, TeacherGroup]) -> None:
        self.forward = forward
        self.loss = loss
        self.teachers = teachers

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        """Give the loss of a batch and its two terms, "supervised" and "distance"."""
        logits = self.forward(*batch.inputs)
        supervised = self.loss(logits, batch.targets, batch.known)
        distance = supervised.new_zeros(())
        for group in self.teachers.values():
            apart = logits.float() - group.logits(batch).float()
            if group.parts is not None:
                apart = apart * heard(batch.targets, group.parts)
            distance = distance + group.weight / 2 * apart.square().sum(dim=1).mean()
        return {"loss": supervised + distance, "supervised": supervised, "distance": distance}


def heard(targets: Tensor, parts: Tensor) -> Tensor:
    """Say which classes a teacher is heard on in each image: those of every part that has a positive class there.

    Args:
        targets: (B, N), 1 for positive.
        parts: (N, k), 1 where a class belongs to a part.

    Returns:
        (B, N) of 0 and 1.

    >>> heard(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])).tolist()
    [[1.0, 1.0, 0.0]]
    """
    parts = parts.to(targets.device, torch.float32)
    return (targets.float() @ parts > 0).float() @ parts.T


def part_matrix(classes: Sequence[str], parts: Sequence[Sequence[str]]) -> Tensor:
    """Write a partition as a matrix (N, k): 1 where a class, in the order given, belongs to a part."""
    sets = [frozenset(part) for part in parts]
    return torch.tensor([[float(name in part) for part in sets] for name in classes])


def merge_order(classes: Sequence[str], taught: Mapping[str, Sequence[str]]) -> list[int]:
    """Give the column of each class when the logits of several teachers are put side by side.

    Args:
        classes: The student's classes, in its order.
        taught: The classes of each teacher, in the order of its logits, by the teacher's name.

    Returns:
        N columns: `side_by_side[:, merge_order(…)]` is in the student's order.

    >>> merge_order(["ant", "bee", "cat"], {"co-1": ["cat", "ant"], "co-2": ["bee"]})
    [1, 2, 0]
    """
    names = [name for known in taught.values() for name in known]
    counts = Counter(names)
    for fault, wrong in (
        ("no teacher knows", [name for name in classes if name not in counts]),
        ("the student does not know", sorted(set(names) - set(classes))),
        ("more than one teacher knows", [name for name, times in counts.items() if times > 1]),
    ):
        if wrong:
            raise TaggerError(
                f"the teachers {', '.join(taught)} cannot be merged: {fault} {listed(map(repr, wrong))}. They were "
                "trained for other labels: delete the folder of the wrong teacher and continue with --resume, or name "
                "another --out."
            )
    column_of = {name: column for column, name in enumerate(names)}
    return [column_of[name] for name in classes]


class MergedTeachers:
    """The teachers of one kind as one: from inputs to logits (B, N) in the student's order, without gradients.

    Args:
        teachers: Give each teacher's logits (B, N_t); they are in eval mode.
        order: What `merge_order` gives.
    """

    def __init__(self, teachers: Sequence[Forward], order: Sequence[int]) -> None:
        self.teachers = teachers
        self.order = torch.tensor(order, dtype=torch.long)

    @torch.no_grad()
    def __call__(self, *inputs: Tensor) -> Tensor:
        """Give the merged logits of some inputs."""
        side_by_side = torch.cat([teacher(*inputs).float() for teacher in self.teachers], dim=1)
        return side_by_side.index_select(1, self.order.to(side_by_side.device))


def online(teachers: Forward) -> TeacherLogits:
    """Ask the teachers again for every batch: for augmented pictures, which are different every time."""
    return lambda batch: teachers(*batch.inputs)


class RememberedLogits:
    """The teachers' logits for every image, computed once: for a student that trains on cached features.

    Args:
        views: (V, rows, N), for each view that a row can be seen in.
    """

    def __init__(self, views: Tensor) -> None:
        self.views = views

    def __call__(self, batch: Batch) -> Tensor:
        """Look up the logits (B, N) of a batch's rows, each in the view that the batch shows."""
        view = torch.zeros_like(batch.rows) if batch.view is None else batch.view
        return self.views[view, batch.rows].to(batch.targets.device, non_blocking=True)


def remember(
    teachers: Forward,
    batches: FeatureBatches,
    device: torch.device,
    progress: Progress = no_progress,
) -> RememberedLogits:
    """Ask the teachers once about every image, in every view.

    Args:
        teachers: From inputs to logits (B, N).
        batches: The student's training data.
        device: Where the teachers compute.
        progress: Called with batches done and batches to do; may raise to stop.
    """
    table = batches.labels.table
    views = torch.empty(len(batches.views), len(table), len(table.classes))
    done, total = 0, len(batches) * len(views)
    for view, logits in enumerate(views):
        for batch in batches.in_order(view):
            logits[batch.rows] = teachers(*batch.to(device).inputs).cpu()
            done += 1
            progress(done, total)
    return RememberedLogits(views)
