"""Variants and sweeps: rows, names and folders."""

from pathlib import Path

import pytest

from tagloom.errors import RecipeError
from tagloom.recipe import override
from tagloom.recipe.recipe import Recipe
from tagloom.studies.variants import Variant, check_names, read_sweep, sweep, variant_of


def test_a_run_is_in_a_folder_of_the_rows_name_and_seed():
    variant = Variant("HSQ, 16/2 experts", "quick")
    assert variant.folder(Path("out"), 2) == Path("out/HSQ,-16-2-experts-seed2")


def test_a_recipe_file_without_a_name_is_called_by_its_file(tmp_path):
    file = tmp_path / "wide.yaml"
    file.write_text("base: quick\nhead: {options: {width: 512}}\n")
    assert variant_of(str(file)).name == "wide"
    file.write_text("base: quick\nname: my wide head\n")
    assert variant_of(str(file)).name == "my wide head"


def test_a_sweep_has_every_combination_and_its_first_setting_makes_no_line():
    values = {"distill.k": [2, 5], "distill.kinds": [["co"], ["co", "dis"]]}
    rows = sweep([Variant("a", "quick"), Variant("b", "quick-gap")], values)
    assert len(rows) == 8
    assert [row.name for row in rows[:2]] == ["a k=2 kinds=co", "a k=2 kinds=co+dis"]
    assert {row.line for row in rows} == {"a co", "a co+dis", "b co", "b co+dis"}
    assert rows[1].swept == {"distill.k": 2, "distill.kinds": ["co", "dis"]}


def test_swept_values_arrive_in_the_recipe_as_they_were_given():
    values = {"optimiser.learning_rate": [1e-05], "head.options.dropout": [0.5], "training.select": ["last"]}
    (row,) = sweep([Variant("a", Recipe())], values)
    recipe = override(Recipe(), row.settings)
    assert (recipe.optimiser.learning_rate, recipe.head.options["dropout"]) == (1e-05, 0.5)
    assert recipe.training.select == "last"


def test_settings_whose_last_parts_are_alike_keep_their_whole_names():
    rows = sweep([Variant("a", "quick")], {"backbone.name": ["x"], "head.name": ["gap"]})
    assert rows[0].name == "a backbone.name=x head.name=gap"


@pytest.mark.parametrize("text", ["preprocess.size", "size=1,2", "preprocess.size=1]: [2", "preprocess.size=1,,2"])
def test_a_sweep_that_is_written_wrongly_is_refused(text):
    with pytest.raises(RecipeError, match="--sweep"):
        read_sweep(text)


def test_a_sweep_without_values_is_refused():
    with pytest.raises(RecipeError, match="names no value"):
        sweep([Variant("a", "quick")], dict([read_sweep("preprocess.size=")]))


def test_two_rows_cannot_share_folders():
    with pytest.raises(RecipeError, match="'a/b'"):
        check_names([Variant("a b", "quick"), Variant("a/b", "quick")])
    with pytest.raises(RecipeError, match="'a'"):
        check_names([Variant("a", "quick"), Variant("a", "quick-gap")])
    check_names([Variant("a", "quick"), Variant("b", "quick")])
