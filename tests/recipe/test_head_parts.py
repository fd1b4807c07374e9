"""Options of a query head belong to the part that uses them; what used to be written flat means the same."""

import pytest

from tagloom.errors import RecipeError
from tagloom.recipe import recipe_from_dict
from tagloom.recipe.head_parts import nest_options

FLAT = {
    "width": 16,
    "queries": "learnable",
    "decoder": "self-attention",
    "readout": "hybrid-sharing",
    "feed_forward": 24,
    "attention_heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 3,
    "queries_as_position": True,
    "positions": False,
    "dropout": 0.2,
    "groups": 5,
    "grouping": "consecutive",
    "grouping_seed": 4,
    "shared_experts": 3,
    "task_experts": 2,
    "shared_input": "task",
    "layer_widths": [8, 4],
    "gate_hidden": 3,
    "classifier_hidden": 6,
    "readout_dropout": 0.1,
    "feature_dropout": 0.3,
}
NESTED = {
    "width": 16,
    "feature_dropout": 0.3,
    "queries": "learnable",
    "decoder": {
        "name": "self-attention",
        "feed_forward": 24,
        "attention_heads": 2,
        "encoder_layers": 1,
        "layers": 3,
        "queries_as_position": True,
        "positions": False,
        "dropout": 0.2,
    },
    "readout": {
        "name": "hybrid-sharing",
        "groups": 5,
        "grouping": "consecutive",
        "grouping_seed": 4,
        "shared_experts": 3,
        "task_experts": 2,
        "shared_input": "task",
        "layer_widths": [8, 4],
        "gate_hidden": 3,
        "classifier_hidden": 6,
        "dropout": 0.1,
    },
}


def test_every_flat_option_goes_to_its_part() -> None:
    assert nest_options("query", FLAT) == NESTED


def test_nested_options_stay_as_they_are() -> None:
    assert nest_options("query", NESTED) == NESTED
    assert nest_options("query", {}) == {}


def test_a_recipe_holds_the_nested_form_only_so_that_both_ways_to_write_it_are_equal() -> None:
    flat = recipe_from_dict({"head": {"name": "hsq", "options": FLAT}})
    assert flat == recipe_from_dict({"head": {"name": "hsq", "options": NESTED}})
    assert flat.head.options == NESTED
    assert recipe_from_dict(flat.to_dict()) == flat


def test_every_flat_option_is_one_that_its_part_takes() -> None:
    pytest.importorskip("torch")
    from tagloom.models.heads import create_head

    head = create_head("query", in_channels=8, classes=6, **FLAT)
    assert (head.readout.queries, len(head.decoder.layers), head.readout.dropout.p) == (5, 3, 0.1)


@pytest.mark.parametrize("head", ["gap", "layover"])
def test_dropout_belongs_to_a_head_that_has_no_decoder(head: str) -> None:
    assert nest_options(head, {"dropout": 0.1}) == {"dropout": 0.1}


def test_a_part_with_nothing_but_its_name_is_written_as_the_name() -> None:
    assert nest_options("hsq", {"readout": {"name": "linear-layers"}}) == {"readout": "linear-layers"}
    assert nest_options("hsq", {"readout": {}, "decoder": None}) == {}


def test_a_flat_option_wins_over_the_nested_one_that_it_was_set_over() -> None:
    assert nest_options("ml-decoder", {"groups": 7, "readout": {"groups": 20}}) == {"readout": {"groups": 7}}


def test_no_value_means_what_it_meant() -> None:
    options = {"groups": None, "grouping": None, "encoder_layers": None, "decoder_layers": None, "width": None}
    assert nest_options("query2label", options) == {"width": None}
    assert nest_options("query2label", {"feed_forward": None}) == {"decoder": {"feed_forward": None}}


def test_what_the_tokens_decoder_never_had_may_still_be_switched_off() -> None:
    off = {"decoder_layers": 0, "queries_as_position": False}
    assert nest_options("tf", off) == {}
    assert nest_options("query", {"decoder": "tokens", **off}) == {"decoder": "tokens"}
    assert nest_options("query2label", off) == {"decoder": {"layers": 0, "queries_as_position": False}}


@pytest.mark.parametrize("part", [3, ["group"], {1: 2}, True])
def test_a_part_that_is_neither_a_name_nor_options_is_refused(part: object) -> None:
    with pytest.raises(RecipeError, match=r"head option readout is .*write a name, or a name with options"):
        nest_options("ml-decoder", {"readout": part})
