"""A model card is written for every tagger that can be read, whatever its metrics and data look like."""

import dataclasses

import pytest

from tagloom.ready import ready_folder
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.card import model_card
from tagloom.tagger.spec import TaggerSpec, read_spec

SPEC = TaggerSpec(
    classes=("cat", "dog"),
    preprocess=Preprocess(size=64),
    backbone="test_efficientnet",
    head="gap",
    metrics={"validation": {"mAP": 50.0, "AP": [40.0, 60.0]}},
)


def test_figures_are_shown():
    card = model_card(SPEC)
    assert "validation: mAP 50.00" in card
    assert "| cat | 0.500 | 40.0 |" in card


@pytest.mark.parametrize(
    "figures",
    [
        {"AP": [1.0]},
        {"AP": [1.0, 2.0, 3.0]},
        {"AP": "high"},
        {"AP": ["a", {}]},
        {"mAP": "high", "calibration": 3},
        {"mAP": None, "calibration": {"before": None}},
        {"calibration": {"before": {"equal-width": {"ECE": "small"}}}},
        [1, 2],
        "good",
    ],
)
def test_figures_of_an_odd_form_are_left_out(figures):
    card = model_card(dataclasses.replace(SPEC, metrics={"validation": figures}))
    assert "| cat | 0.500 | – |" in card


@pytest.mark.parametrize(
    "recipe", [{"thresholds": 3}, {"thresholds": {"aim": [1]}}, {"name": {"a": 1}}, {"licence": None}]
)
def test_recipes_of_an_odd_form_are_no_obstacle(recipe):
    assert "## Licence" in model_card(dataclasses.replace(SPEC, recipe=recipe))


def test_a_value_cannot_begin_a_section_of_its_own():
    card = model_card(dataclasses.replace(SPEC, data={"training_table": "a.csv\n\n# Safe and certified\n"}))
    assert "training table: a.csv # Safe and certified\n" in card


def test_the_licence_is_that_of_the_recipe_or_not_stated():
    assert "## Licence\n\nnot stated\n" in model_card(SPEC)
    assert "## Licence\n\nCC0-1.0\n" in model_card(dataclasses.replace(SPEC, recipe={"licence": "CC0-1.0"}))


def test_the_card_of_the_ready_tagger_states_its_licence_and_that_of_its_data():
    card = (ready_folder() / "README.md").read_text(encoding="utf-8")
    assert card == model_card(read_spec(ready_folder()))
    for part in ("Apache-2.0", "CC BY 4.0", "Flickr", "neither is included"):
        assert part in card
