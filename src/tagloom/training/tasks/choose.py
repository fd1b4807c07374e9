"""Which task a run has; nothing else decides it."""

from collections.abc import Callable, Mapping

from tagloom.losses import Loss
from tagloom.models.heads import Head
from tagloom.recipe import Recipe
from tagloom.training.context import RunContext
from tagloom.training.features.prepare import RunBatches
from tagloom.training.tasks.augmented_queries import AugmentedQueriesTask
from tagloom.training.tasks.distillation import DistillTask, TeacherGroup, Teaching
from tagloom.training.tasks.mixed_pictures import MixedPicturesTask
from tagloom.training.tasks.supervised import Forward, SupervisedTask, Task

Teachers = Mapping[str, TeacherGroup]
"""The teachers of a student, merged by kind."""
AskTeachers = Callable[[RunBatches, RunContext], Teaching]
"""Asks a student's teachers about its images."""


def choose_task(recipe: Recipe, forward: Forward, loss: Loss, head: Head, teachers: Teachers | None = None) -> Task:
    """Choose the task of a run.

    Args:
        recipe: Says whether words are augmented and pictures mixed.
        forward: From a batch's inputs to logits (B, N).
        loss: The recipe's.
        head: The head that `forward` runs; augmented queries read its words.
        teachers: The teachers of a student, merged by kind; None for plain training.
    """
    task = _task_on_batches(recipe, forward, loss, head, teachers)
    mixup, cutmix = recipe.augment.mixup, recipe.augment.cutmix
    if mixup or cutmix:
        return MixedPicturesTask(task, mixup=mixup, cutmix=cutmix, competing=recipe.activation == "softmax")
    return task


def _task_on_batches(recipe: Recipe, forward: Forward, loss: Loss, head: Head, teachers: Teachers | None) -> Task:
    """Choose what is done with a batch once its pictures are mixed, or not."""
    if teachers is not None:
        return DistillTask(forward, loss, teachers)
    words = recipe.words
    if not words.augmented:
        return SupervisedTask(forward, loss)
    return AugmentedQueriesTask(
        forward,
        loss,
        head,
        noise=words.query_noise,
        random_queries=words.random_queries,
        random_present=words.random_label == "present",
        labels_per_step=words.labels_per_step,
    )
