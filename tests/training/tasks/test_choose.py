"""Which task a run has follows from its recipe and from whether it has teachers."""

import pytest
import torch
from torch import nn

from tagloom.losses import create_loss
from tagloom.recipe import Recipe, recipe_from_dict
from tagloom.training.tasks.augmented_queries import AugmentedQueriesTask
from tagloom.training.tasks.choose import choose_task
from tagloom.training.tasks.distillation import DistillTask, TeacherGroup
from tagloom.training.tasks.mixed_pictures import MixedPicturesTask
from tagloom.training.tasks.supervised import SupervisedTask, Task

LOSS = create_loss("bce")
HEAD = nn.Linear(2, 3)
TEACHERS = {"co": TeacherGroup(lambda batch: torch.zeros(1, 3))}
MIXED = {"training": {"cache_features": False}, "augment": {"mixup": 0.2, "cutmix": 1.0}}
WORDS = {"words": {"source": "vectors.txt", "query_noise": 0.1, "random_queries": 2, "random_label": "present"}}


def chosen(content: dict[str, object], teachers: dict[str, TeacherGroup] | None = None) -> tuple[Recipe, Task]:
    recipe = recipe_from_dict(content)
    return recipe, choose_task(recipe, HEAD, LOSS, HEAD, teachers)


@pytest.mark.parametrize("content", [{}, {"loss": {"name": "bce"}}])
def test_a_plain_recipe_has_a_supervised_task_with_the_loss_that_was_built(content):
    _, task = chosen(content)
    assert isinstance(task, SupervisedTask)
    assert task.loss is LOSS


def test_a_recipe_that_augments_words_has_augmented_queries():
    recipe, task = chosen(WORDS)
    assert isinstance(task, AugmentedQueriesTask)
    assert (task.noise, task.random_queries, task.random_label) == (0.1, 2, 1.0)
    assert task.head is HEAD
    assert recipe.words.augmented


def test_a_run_with_teachers_is_a_distillation():
    _, task = chosen({}, TEACHERS)
    assert isinstance(task, DistillTask)
    assert task.teachers is TEACHERS


@pytest.mark.parametrize(("teachers", "inner"), [(None, SupervisedTask), (TEACHERS, DistillTask)])
def test_mixed_pictures_wrap_whatever_the_task_is(teachers, inner):
    _, task = chosen(MIXED, teachers)
    assert isinstance(task, MixedPicturesTask)
    assert (task.mixup, task.cutmix, task.competing) == (0.2, 1.0, False)
    assert isinstance(task.task, inner)


def test_classes_that_share_a_softmax_compete_in_mixed_pictures():
    _, task = chosen(MIXED | {"task": "single", "loss": {"name": "cross-entropy"}})
    assert task.competing
