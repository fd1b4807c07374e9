"""The teachers of a distillation: how labels are split, written and read, and what each teacher is trained with."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from tagloom.data.table import LabelTable
from tagloom.errors import DataError, RecipeError, TagloomError
from tagloom.labels.graph import partition, random_partition
from tagloom.models.heads import create_head
from tagloom.recipe import recipe_from_dict
from tagloom.recipe.distillation import Distillation
from tagloom.training.distill.teachers import (
    PARTS_FILE,
    fit_recipe,
    list_teachers,
    read_partitions,
    split_labels,
    write_partitions,
)
from tagloom.training.plan import RunPlan
from tagloom.training.tables import Tables

CLASSES = tuple("abcdefgh")


def make_table(seed: int = 0) -> LabelTable:
    positive = np.random.default_rng(seed).random((80, 8)) < 0.3
    return LabelTable(Path("photos"), [f"{row}.jpg" for row in range(80)], CLASSES, csr_array(positive), source="t.csv")


def plan_with(content=None, **choices) -> RunPlan:
    recipe = recipe_from_dict(content or {"training": {"epochs": 8}})
    return RunPlan("t.csv", None, recipe, distill=Distillation(**{"teacher_epochs": 2, "k": 3} | choices))


def teachers_of(plan: RunPlan, table: LabelTable, parts=None, held_out=None):
    parts = parts or split_labels(table, plan.distill, 0)
    held = np.zeros(len(table), bool) if held_out is None else held_out
    return list_teachers(plan, Tables(table, held, None), parts, Path("out"))


def test_every_kind_splits_all_labels_in_its_own_way():
    table = make_table()
    parts = split_labels(table, plan_with(kinds=("co", "dis", "random", "self")).distill, seed=4)
    assert list(parts) == ["co", "dis", "random", "self"]
    assert all(sorted(name for part in found for name in part) == list(CLASSES) for found in parts.values())

    def names(found):
        return [[CLASSES[label] for label in part] for part in found]

    assert parts["co"] == names(partition(table.positive, 3, "co", seed=4))
    assert parts["dis"] == names(partition(table.positive, 3, "dis", seed=4))
    assert parts["random"] == names(random_partition(8, 3, seed=4))
    assert parts["self"] == [list(CLASSES)], "one teacher, whatever k"
    cut = split_labels(table, plan_with(kinds=("random",), random_sizes="random").distill, seed=4)
    assert cut["random"] == names(random_partition(8, 3, seed=4, sizes="random")) != parts["random"]


def test_partitions_are_read_as_they_were_written(tmp_path):
    table = make_table()
    assert read_partitions(tmp_path, table) is None
    parts = split_labels(table, plan_with().distill, seed=0)
    write_partitions(tmp_path, table, parts)
    assert read_partitions(tmp_path, table) == parts
    assert {path.name for path in tmp_path.iterdir()} == {PARTS_FILE}
    with pytest.raises(TagloomError, match=r"labels of t\.csv have changed"):
        read_partitions(tmp_path, make_table(seed=1))
    for content in ("{", "[]", '{"parts": 3, "table": ""}'):
        (tmp_path / PARTS_FILE).write_text(content)
        with pytest.raises(TagloomError, match="Delete it to split them again"):
            read_partitions(tmp_path, table)


def test_a_teacher_is_an_ordinary_run_of_its_part():
    plan, table = plan_with(images="with-labels"), make_table()
    teachers = teachers_of(plan, table)
    assert [teacher.name for teacher in teachers] == ["co-1", "co-2", "co-3", "dis-1", "dis-2", "dis-3"]
    for teacher in teachers:
        assert teacher.folder == Path("out/teachers") / teacher.name
        assert teacher.plan.recipe.training.epochs == 2
        assert (teacher.plan.images, teacher.plan.export, teacher.plan.distill) == ("with-labels", False, None)
    for kind in ("co", "dis"):
        taught = [name for teacher in teachers if teacher.kind == kind for name in teacher.plan.classes]
        assert sorted(taught) == list(CLASSES)


def test_the_partition_of_a_plan_survives_its_file(tmp_path):
    plan = plan_with(kinds=("random", "self"), weights={"self": 0.5}, tau=2, images="all")
    plan.write(tmp_path)
    assert RunPlan.read(tmp_path).distill == plan.distill
    for teacher in teachers_of(plan, make_table()):
        teacher.plan.write(tmp_path)
        assert RunPlan.read(tmp_path).classes == teacher.plan.classes
        RunPlan.read(tmp_path).check_same(teacher.plan)


def test_a_part_that_nobody_can_learn_names_its_classes_and_the_fix():
    labels = make_table().positive.toarray()
    labels[:, 2] = labels[:, 5] = False
    labels[3, 5] = True  # but this image is held out
    table = LabelTable(Path("p"), [str(row) for row in range(80)], CLASSES, csr_array(labels), source="t.csv")
    parts = {"co": [["a", "b", "d", "e", "g", "h"], ["c", "f"]]}
    with pytest.raises(DataError, match=r"t\.csv: .*'c', 'f'.*part 2 of the co teachers.*--k 1"):
        teachers_of(plan_with(), table, parts, held_out=np.arange(80) == 3)
    assert len(teachers_of(plan_with(), table, parts)) == 2


def head_of(options, loss=None):
    content = {"head": {"name": "ml-decoder-small", "options": options}, "loss": {"options": loss or {}}}
    return fit_recipe(recipe_from_dict(content), CLASSES, ("c", "h", "a"))


@pytest.mark.parametrize(
    ("options", "fitted"),
    [
        ({"groups": 2}, {"groups": 2}),
        ({"groups": 5}, {"groups": 3}),
        ({"name": "shared", "groups": 5}, {"name": "shared", "groups": 3}),
        ({"groups": 5, "grouping": "consecutive"}, {"groups": 3, "grouping": "consecutive"}),
        # a, b | c, d, e, h | f, g  of all: of the part c, h, a the groups a | c, h are left
        ({"grouping": [[0, 1], [2, 3, 4, 7], [5, 6]]}, {"grouping": [[2], [0, 1]]}),
        ({"groups": 3, "grouping": [[0, 1], [2, 3, 4, 7], [5, 6]]}, {"grouping": [[2], [0, 1]]}),
        ("per-class", "per-class"),
    ],
)
def test_options_that_count_classes_are_fitted_to_the_part_and_build_a_head(options, fitted):
    recipe = head_of({"readout": options, "decoder": {"dropout": 0.3}})
    assert recipe.head.options == {"readout": fitted, "decoder": {"dropout": 0.3}}
    create_head(recipe.head.name, in_channels=8, classes=3, **recipe.head.options)


def test_options_that_list_a_value_per_class_keep_those_of_the_part():
    recipe = head_of({}, {"weights": [float(row) for row in range(8)]})
    assert recipe.loss.options["weights"] == [2.0, 7.0, 0.0]
    with pytest.raises(RecipeError, match="weights lists 2 values for 8 classes"):
        head_of({}, {"weights": [1.0, 2.0]})


def test_the_recipe_of_a_teacher_with_all_classes_is_the_students():
    recipe = recipe_from_dict({"head": {"name": "ml-decoder", "options": {"groups": 4, "grouping": "random"}}})
    assert fit_recipe(recipe, CLASSES, CLASSES) is recipe


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"kinds": ("co", "cooo")}, "did you mean 'co'"),
        ({"kinds": ("co", "co")}, "each only once"),
        ({"kinds": ()}, "at least one kind"),
        ({"weights": {"random": 1.0}}, "no such teachers"),
        ({"weights": {"co": -1.0}}, "the weight of co is .*number of at least 0"),
        ({"weights": {"co": float("nan")}}, "the weight of co is .*number of at least 0"),
        ({"k": 0}, "k is 0; it must be a whole number of at least 1"),
        ({"tau": 0.0}, "greater than 0"),
        ({"student_epochs": 0}, "student_epochs is 0"),
        ({"random_sizes": "random"}, "--random-sizes random: is about --kinds random"),
    ],
)
def test_a_distillation_that_cannot_be_is_refused(choices, message):
    with pytest.raises(RecipeError, match=message):
        plan_with(**choices)


def test_teachers_may_have_a_learning_rate_of_their_own():
    recipe = {"optimiser": {"learning_rate": 1e-5}}
    for chosen, rate in ((None, 1e-5), (1e-4, 1e-4)):
        plan = plan_with(recipe, teacher_learning_rate=chosen)
        teachers = teachers_of(plan, make_table())
        assert {teacher.plan.recipe.optimiser.learning_rate for teacher in teachers} == {rate}
    with pytest.raises(RecipeError, match="teacher_learning_rate is 0"):
        plan_with(teacher_learning_rate=0.0)


def test_a_recipe_takes_a_weight_of_its_base_away_with_null():
    assert plan_with(kinds=("co",), weights={"co": 1.0, "dis": None}).distill.weights == {"co": 1.0}
