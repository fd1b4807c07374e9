"""A run's plan is kept in its folder, so that resuming needs nothing else."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from tagloom.data import load_table
from tagloom.data.table import LabelTable
from tagloom.errors import RecipeError, TagloomError
from tagloom.recipe import Recipe, override, recipe_from_dict
from tagloom.training.checkpoint import run_identity
from tagloom.training.plan import RUN_FILE, RunPlan, check_options, read_identity
from tagloom.training.tables import Tables, load_tables


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path):
    with pytest.raises(TagloomError, match="holds no run that could be resumed"):
        RunPlan.read(tmp_path)
    for content in ("{", "[]", "{}", '{"recipe": {}}'):
        (tmp_path / RUN_FILE).write_text(content)
        with pytest.raises(TagloomError):
            RunPlan.read(tmp_path)


def test_a_plan_comes_back_from_its_folder(tmp_path):
    plan = RunPlan("/photos/a.csv", None, recipe_from_dict({"training": {"epochs": 3}}), {"split": "train"})
    plan.write(tmp_path)
    assert RunPlan.read(tmp_path) == plan


def test_a_plan_with_relative_paths_is_the_same_run_when_it_is_read_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vec.txt").write_text("dog 1 2\n")
    (tmp_path / "out").mkdir()
    plan = RunPlan("a.csv", "v.csv", recipe_from_dict({"words": {"source": "vec.txt"}}), start="runs/probe")
    plan.write(tmp_path / "out")
    table = LabelTable(tmp_path, ["a.jpg"], ("dog",), csr_array(np.array([[True]])))
    tables = Tables(table, np.zeros(1, np.bool_), None)
    before = run_identity(plan, tables)
    monkeypatch.chdir(tmp_path / "out")
    again = RunPlan.read(tmp_path / "out")
    assert run_identity(again, tables) == before
    assert run_identity(replace(again, start=None), tables) != before


def test_a_table_that_the_caller_has_read_is_taken_and_is_not_part_of_the_plan(tmp_path):
    (tmp_path / "a.csv").write_text("image,labels\na.jpg,dog\nb.jpg,cat\n")
    table = load_table(tmp_path / "a.csv")
    recipe = recipe_from_dict({"data": {"holdout": 0.0}, "training": {"select": "last"}})
    plan = RunPlan(str(tmp_path / "a.csv"), None, recipe)
    holding = replace(plan, table=table, classes=("dog",))
    assert holding == replace(plan, classes=("dog",))
    holding.write(tmp_path)
    assert RunPlan.read(tmp_path) == holding
    assert "table" not in json.loads((tmp_path / RUN_FILE).read_text())
    (tmp_path / "a.csv").unlink()
    assert load_tables(holding).table.classes == ("dog",)


def test_a_plan_appears_whole_or_not_at_all(tmp_path):
    RunPlan("a.csv", None, recipe_from_dict({})).write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {RUN_FILE, "recipe.yaml"}


@pytest.mark.parametrize(
    ("content", "suggestion"),
    [
        ({"head": {"options": {"drop_out": 0.1}}}, "dropout"),
        ({"loss": {"options": {"margn": 0.1}}}, "margin"),
    ],
)
def test_options_of_head_and_loss_are_checked_by_name(content, suggestion):
    check_options(recipe_from_dict({}))
    with pytest.raises(RecipeError, match=f"did you mean '{suggestion}'"):
        check_options(recipe_from_dict(content))


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("training.epochs=9", "training.epochs was"),
        ("head.options.dropout=0.5", "head.options was"),
        ("name=x", "name was"),
    ],
)
def test_a_run_is_not_resumed_with_another_recipe(setting, named):
    plan = RunPlan("a.csv", None, Recipe())
    plan.check_same(RunPlan(str(Path("a.csv").resolve()), None, Recipe()))
    with pytest.raises(TagloomError, match=named):
        plan.check_same(RunPlan("a.csv", None, override(Recipe(), [setting])))


def test_the_tables_of_a_run_may_move_but_not_come_and_go():
    plan = RunPlan("a.csv", None, Recipe())
    plan.check_same(RunPlan("b.csv", None, Recipe()))
    with pytest.raises(TagloomError, match="--val was left out, not given"):
        plan.check_same(RunPlan("a.csv", "v.csv", Recipe()))


def test_the_identity_of_a_run_is_kept_with_its_plan(tmp_path):
    plan = RunPlan("a.csv", None, Recipe())
    assert read_identity(tmp_path) is None
    plan.write(tmp_path)
    assert read_identity(tmp_path) is None
    plan.write(tmp_path, "abc")
    assert read_identity(tmp_path) == "abc"
    assert RunPlan.read(tmp_path) == plan.placed()


def test_a_run_is_named_by_its_labels_and_not_by_where_its_images_are(tmp_path):
    held_out, plan = np.zeros(2, np.bool_), RunPlan("x", None, Recipe())
    (tmp_path / "a.csv").write_text("image,labels\na.jpg,dog\nb.jpg,cat\n")
    (tmp_path / "b.csv").write_text("image,labels\n/new/a.jpg,dog\n/new/b.jpg,cat\n")
    (tmp_path / "c.csv").write_text("image,labels\na.jpg,cat\nb.jpg,dog\n")
    here, moved, other = (
        run_identity(plan, Tables(load_table(tmp_path / f"{name}.csv"), held_out, None)) for name in "abc"
    )
    assert here == moved != other
