"""Asking finished teachers: loading them from their folders, measuring them, and giving their logits to the student."""

import time
from collections.abc import Sequence
from pathlib import Path

import torch

from tagloom.errors import TaggerError
from tagloom.models.network import load_network
from tagloom.recipe.distillation import Distillation
from tagloom.tagger.spec import SPEC_FILE, read_spec
from tagloom.training.context import RunContext
from tagloom.training.distill.levels import Level, level_of, measure_merged, report_levels
from tagloom.training.distill.teachers import Teacher
from tagloom.training.features.batches import Batches
from tagloom.training.features.feature_batches import FeatureBatches
from tagloom.training.features.prepare import RunBatches
from tagloom.training.network import train_tail, trained_part
from tagloom.training.tasks.distillation import (
    MergedTeachers,
    TeacherGroup,
    TeacherLogits,
    Teaching,
    merge_order,
    online,
    part_matrix,
    remember,
)
from tagloom.training.tasks.supervised import Forward


def ask_teachers(
    teachers: Sequence[Teacher],
    baseline: Path | None,
    settings: Distillation,
    batches: RunBatches,
    context: RunContext,
) -> Teaching:
    """Load finished teachers, merge those of each kind, and say how good they are.

    Args:
        teachers: All teachers of the student.
        baseline: The tagger folder of the student without teachers; None if there is none.
        settings: How they take part.
        batches: The student's. About cached features that it learns from, teachers are asked once, here, in every view;
            about pictures, which are augmented, they are asked again for every batch.
        context: The student's run.
    """
    started = time.monotonic()
    groups: dict[str, TeacherGroup] = {}
    levels: dict[str, Level] = {}
    for kind in settings.kinds:
        of_kind = [teacher for teacher in teachers if teacher.kind == kind]
        merged = merge_teachers(of_kind, batches.learn.labels.table.classes, context.device)
        levels[kind] = measure_merged(kind, merged, batches, context)
        parts = None
        if settings.images == "with-labels":
            part_names = [teacher.plan.classes or () for teacher in of_kind]
            parts = part_matrix(batches.learn.labels.table.classes, part_names)
        groups[kind] = TeacherGroup(_ask(kind, merged, batches.learn, context), settings.weights[kind], parts)
    context.log.event("teachers", count=len(teachers), seconds=time.monotonic() - started)
    alone = {} if baseline is None else level_of(baseline)
    return Teaching(groups, report_levels(levels, alone, settings, context))


def _ask(kind: str, merged: MergedTeachers, batches: Batches, context: RunContext) -> TeacherLogits:
    """Ask the teachers of one kind now, where features are cached, or else later."""
    if not isinstance(batches, FeatureBatches):
        return online(merged)
    return remember(merged, batches, context.device, context.stoppable_progress(f"asking the {kind} teachers"))


def merge_teachers(teachers: Sequence[Teacher], classes: tuple[str, ...], device: torch.device) -> MergedTeachers:
    """Load the teachers of one kind from their folders and merge them into the student's order of classes.

    They take what the student takes: cached features, or pictures, as their recipe says.

    Args:
        teachers: All teachers of the kind.
        classes: The student's classes, in order.
        device: Where they compute.
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
        network, recipe = load_network(teacher.folder, spec), teacher.plan.recipe
        train_tail(network, recipe)
        network.requires_grad_(False).to(device)
        forwards.append(trained_part(network, recipe).forward)
    return MergedTeachers(forwards, merge_order(classes, taught))
