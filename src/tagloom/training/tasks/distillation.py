"""Distillation's pure parts: merging teachers of parts of the labels, and the loss of a student that follows them.

From CPSD (Xu et al., "Boosting Multi-Label Image Classification with Complementary Parallel Self-Distillation", 3.3).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tagloom.errors import TaggerError
from tagloom.progress import Progress, no_progress
from tagloom.training.features.batches import FeatureBatches
from tagloom.training.tasks.supervised import Batch, Forward, Loss

TeacherLogits = Callable[[Batch], Tensor]
"""From a batch to what teachers say of it: logits (B, N) in the student's order of classes."""


@dataclass(frozen=True)
class TeacherGroup:
    """All teachers of one way of parting the labels, merged.

    Attributes:
        logits: What they say of a batch.
        weight: How much the distance to them counts.
        parts: (N, k), 1 where a class belongs to a part, if each teacher learned only from images that have one of its
            classes; None if all learned from all images.
    """

    logits: TeacherLogits
    weight: float = 1.0
    parts: Tensor | None = None


class DistillTask:
    """Training under teachers: loss + ½ Σ_g w_g ‖s − t_g‖², with s the student's logits and t_g those of a group.

    With the groups "co" and "dis" and weights of 1 this is the paper's Eq. 6 and 7, but for one factor: both of its
    terms are sums over images, both of ours are means over the images of the batch, as losses here are, so that neither
    the ratio of the two terms nor the size of a step depends on the batch size. The square is summed over all classes
    that a teacher is heard on: those of the teachers that learned from images like this one (x ∈ X_C in Eq. 5), whether
    they are known for the image or not. Where a label is unknown the teachers are all there is to learn from.
    """

    def __init__(self, forward: Forward, loss: Loss, teachers: Mapping[str, TeacherGroup]) -> None:
        self.forward = forward
        self.loss = loss
        self.teachers = teachers

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        """Give the loss, its two parts ("supervised" and "distance") and logits (B, N) of a batch."""
        logits = self.forward(*batch.inputs)
        supervised = self.loss(logits, batch.targets, batch.known)
        distance = supervised.new_zeros(())
        for group in self.teachers.values():
            apart = logits.float() - group.logits(batch).float()
            if group.parts is not None:
                apart = apart * heard(batch.targets, group.parts)
            distance = distance + group.weight / 2 * apart.square().sum(dim=1).mean()
        return {"loss": supervised + distance, "supervised": supervised, "distance": distance, "logits": logits}


def heard(targets: Tensor, parts: Tensor) -> Tensor:
    """Say which classes a teacher is heard on in each image: those of the parts that the image has a class of.

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
    """Write parts as a matrix (N, k): 1 where a class, in the order given, belongs to a part."""
    sets = [frozenset(part) for part in parts]
    return torch.tensor([[float(name in part) for part in sets] for name in classes])


def merge_order(classes: Sequence[str], parts: Mapping[str, Sequence[str]]) -> list[int]:
    """Say where each class is found when the logits of teachers are put side by side.

    Args:
        classes: The student's classes, in its order.
        parts: The classes of each teacher, in the order of its logits, by the teacher's name.

    Returns:
        N columns: `side_by_side[:, merge_order(…)]` is in the student's order.

    >>> merge_order(["ant", "bee", "cat"], {"co-1": ["cat", "ant"], "co-2": ["bee"]})
    [1, 2, 0]
    """
    taught = [name for part in parts.values() for name in part]
    counts = Counter(taught)
    for fault, names in (
        ("no teacher knows", [name for name in classes if name not in counts]),
        ("the student does not know", sorted(set(taught) - set(classes))),
        ("more than one teacher knows", [name for name, times in counts.items() if times > 1]),
    ):
        if names:
            listed = ", ".join(map(repr, names[:8])) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
            raise TaggerError(
                f"the teachers {', '.join(parts)} cannot be merged: {fault} {listed}. They were trained for other "
                "labels: delete the teacher folder that does not belong and go on with --resume, or name another --out."
            )
    column = {name: place for place, name in enumerate(taught)}
    return [column[name] for name in classes]


class MergedTeachers:
    """The teachers of one group as one: from inputs to logits (B, N) in the student's order, without gradients.

    Args:
        teachers: What gives each teacher's logits (B, N_t), in eval mode.
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
    """Ask the teachers anew for every batch: for pictures that are augmented, which never come twice alike."""
    return lambda batch: teachers(*batch.inputs)


class RememberedLogits:
    """What the teachers said of every image, asked once: for a student that trains from cached features.

    Args:
        views: (V, rows, N), for each view that a row can be seen in.
    """

    def __init__(self, views: Tensor) -> None:
        self.views = views

    def __call__(self, batch: Batch) -> Tensor:
        """Look up the logits (B, N) of a batch's rows, each in the view that the batch shows."""
        seen = torch.zeros_like(batch.rows) if batch.view is None else batch.view
        return self.views[seen, batch.rows].to(batch.targets.device, non_blocking=True)


def remember(
    teachers: Forward,
    batches: FeatureBatches,
    device: torch.device,
    progress: Progress = no_progress,
) -> RememberedLogits:
    """Ask the teachers once about every image of some batches, in every view.

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
