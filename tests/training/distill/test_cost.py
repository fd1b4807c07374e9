"""What a distillation is said to cost, against a count by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from tagloom.recipe import recipe_from_dict
from tagloom.recipe.distillation import Distillation, default_distillation
from tagloom.training.distill.cost import count_cost, describe_cost
from tagloom.training.distill.teachers import list_baseline, list_teachers, split_labels
from tagloom.training.plan import RunPlan
from tagloom.training.tables import load_tables


def counted(scenes, settings: Distillation, **training) -> tuple[float, str]:
    content = {
        "data": {"holdout": 0.2},
        "augment": {"flip": 0.5},
        "training": {"epochs": 10, "select": "last"} | training,
    }
    plan = RunPlan(str(scenes / "train.csv"), None, recipe_from_dict(content), distill=settings)
    tables = load_tables(plan)
    parts = split_labels(tables.table, settings, 0)
    before = [*list_baseline(plan, Path("out")), *list_teachers(plan, tables, parts, Path("out"))]
    return count_cost(plan, tables, before), describe_cost(plan, tables, before)


def test_by_default_ten_teachers_train_as_long_as_a_tagger_and_the_student_two_and_a_half_times(scenes):
    cost, text = counted(scenes, default_distillation(10))
    # 10 x 10 epochs, then 25, and each teacher is asked once, forward only, about two views
    assert cost == pytest.approx((10 * 10 + 25 + 10 * 2 / 3) / 10)
    assert text == (
        "Teachers: 10, of 10 epochs each, on all images. The student trains 25 epochs, 2.5 times the recipe's 10. "
        "Altogether about 13 times the training of tagloom train with this recipe."
    )


def test_a_baseline_and_teachers_that_are_asked_about_every_batch_are_counted(scenes):
    settings = replace(default_distillation(10), kinds=("self",), weights={}, baseline=True)
    cost, text = counted(scenes, settings, cache_features=False)
    assert cost == pytest.approx((10 + 25 + 25 + 25 / 3) / 10)
    assert "2.5 times the recipe's 10, and so does the baseline." in text


def test_teachers_that_see_fewer_images_cost_less(scenes):
    every, _ = counted(scenes, Distillation(10, k=5))
    some, text = counted(scenes, Distillation(10, k=5, images="with-labels"))
    assert 2 < some < every
    assert "on images with a label of theirs. The student trains 10 epochs. Altogether" in text
