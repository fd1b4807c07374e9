"""Asking finished teachers: loading them from their folders, and giving their logits to the student."""

import time
from collections.abc import Sequence

import torch

from tagloom.errors import TaggerError
from tagloom.models.network import load_network
from tagloom.recipe.distillation import Distillation
from tagloom.tagger.spec import SPEC_FILE, read_spec
from tagloom.training.context import RunContext
from tagloom.training.distill.teachers import Teacher
from tagloom.training.features.batches import Batches
from tagloom.training.features.feature_batches import FeatureBatches
from tagloom.training.tasks.distillation import (
    MergedTeachers,
    TeacherGroup,
    TeacherLogits,
    merge_order,
    online,
    part_matrix,
    remember,
)
from tagloom.training.tasks.supervised import Forward


def ask_teachers(
    teachers: Sequence[Teacher], settings: Distillation, batches: Batches, context: RunContext
) -> dict[str, TeacherGroup]:
    """Load finished teachers and merge those of each kind.

    Args:
        teachers: All teachers of the student.
        settings: How they take part.
        batches: What the student learns from. About cached features teachers are asked once, here; about pictures,
            which are augmented, they are asked again for every batch.
        context: The student's run.
    """
    started = time.monotonic()
    groups: dict[str, TeacherGroup] = {}
    for kind in settings.kinds:
        of_kind = [teacher for teacher in teachers if teacher.kind == kind]
        groups[kind] = _ask_kind(kind, of_kind, settings, batches, context)
    context.log.event("teachers", count=len(teachers), seconds=time.monotonic() - started)
    return groups


def _ask_kind(
    kind: str, teachers: Sequence[Teacher], settings: Distillation, batches: Batches, context: RunContext
) -> TeacherGroup:
    """Merge the teachers of one kind."""
    classes, from_features = batches.labels.table.classes, isinstance(batches, FeatureBatches)
    merged = merge_teachers(teachers, classes, context.device, from_features=from_features)
    logits: TeacherLogits = online(merged)
    if isinstance(batches, FeatureBatches):
        progress = context.stoppable_progress(f"asking the {kind} teachers")
        logits = remember(merged, batches, context.device, progress)
    parts = None
    if settings.images == "with-labels":
        parts = part_matrix(classes, [teacher.plan.classes or () for teacher in teachers])
    return TeacherGroup(logits, settings.weights[kind], parts)


def merge_teachers(
    teachers: Sequence[Teacher], classes: tuple[str, ...], device: torch.device, *, from_features: bool
) -> MergedTeachers:
    """Load the teachers of one kind from their folders and merge them into the student's order of classes.

    Args:
        teachers: All teachers of the kind.
        classes: The student's classes, in order.
        device: Where they compute.
        from_features: Whether they are asked about cached features, with their heads alone, or about pictures.
    """
    taught: dict[str, tuple[str, ...]] = {}
    forwards: list[Forward] = []
    for teacher in teachers:
        if not (teacher.folder / SPEC_FILE).is_file():
            raise TaggerError(
                f"{teacher.folder}: the teacher {teacher.name} is missing or not finished. Train it, and keep all "
                f"others, with: tagloom distill --resume --out {teacher.folder.parent.parent}"
            )
        spec = read_spec(teacher.folder)
        taught[teacher.name] = spec.classes
        network = load_network(teacher.folder, spec).requires_grad_(False).to(device)
        forwards.append(network.head.classify if from_features else network)
    return MergedTeachers(forwards, merge_order(classes, taught))
