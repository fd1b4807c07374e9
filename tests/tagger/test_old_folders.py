"""Tagger folders and recipes that an earlier Tagloom wrote load, and give the scores that they gave."""

import json
from pathlib import Path

import numpy as np
import pytest

import tagloom
from tagloom.data.scenes import draw_scene
from tagloom.recipe import load_recipe, recipe_from_dict
from tagloom.recipe.head_parts import pin_first_defaults
from tagloom.tagger.spec import RUN_FILE, read_spec, write_spec

FOLDERS = Path(__file__).parents[1] / "fixtures" / "format-1"
OPTIONS = {
    "hsq": {
        "width": 16,
        "feature_dropout": 0.1,
        "decoder": {"name": "self-attention", "feed_forward": 24, "attention_heads": 2},
        "readout": {"shared_experts": 3, "layer_widths": [8, 4], "dropout": 0.1},
    },
    "words": {
        "width": 16,
        "decoder": {"feed_forward": 24, "attention_heads": 2},
        "readout": {"groups": 8, "grouping": "consecutive"},
    },
}

READ_OPTIONS = OPTIONS | {"hsq": {**OPTIONS["hsq"], "readout": {**OPTIONS["hsq"]["readout"], "shared_input": "shared"}}}
"""As they are read: the default of `shared_input` was another one when they were written."""

every_folder = pytest.mark.parametrize("name", OPTIONS)


@every_folder
def test_an_old_tagger_gives_the_scores_that_it_gave(name: str) -> None:
    if name == "hsq":  # it has no ONNX copy
        pytest.importorskip("torch")
    pictures = [np.asarray(draw_scene(seed=0, index=index)[0]) for index in range(3)]
    scores = tagloom.load(FOLDERS / name, device="cpu").scores(pictures)
    expected = json.loads((FOLDERS / name / "expected_scores.json").read_text())
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-4)


@every_folder
def test_the_options_of_an_old_tagger_are_nested_when_it_is_read(name: str) -> None:
    assert read_spec(FOLDERS / name).head_options == READ_OPTIONS[name]


def test_an_old_recipe_and_the_plan_of_an_old_run_load() -> None:
    recipe = load_recipe(str(FOLDERS / "hsq" / "recipe.yaml"))
    assert recipe.head.options == OPTIONS["hsq"]
    run = json.loads((FOLDERS / "hsq" / RUN_FILE).read_text())
    assert recipe_from_dict(run["recipe"]) == recipe


def test_an_old_run_is_read_as_a_plan() -> None:
    pytest.importorskip("torch")
    from tagloom.training.plan import RunPlan

    assert RunPlan.read(FOLDERS / "hsq").recipe.head.options == READ_OPTIONS["hsq"]


def test_an_old_tagger_that_is_written_again_stays_what_it_was(tmp_path: Path) -> None:
    write_spec(read_spec(FOLDERS / "hsq"), tmp_path)
    assert read_spec(tmp_path).head_options == READ_OPTIONS["hsq"]


@pytest.mark.parametrize("options", [{"width": 8, "attention_heads": 2}, {"width": 8, "decoder": {"positions": False}}])
def test_an_old_tf_is_rebuilt_with_the_tensors_that_it_had(options: dict[str, object]) -> None:
    torch = pytest.importorskip("torch")
    from tagloom.models.heads import create_head

    with torch.device("meta"):
        old = create_head("tf", in_channels=6, classes=5, **pin_first_defaults("tf", options))
        layer = old.decoder.layers[0]
    assert layer.feed_forward.expand.weight.shape == (32, 8)
    assert layer.self_attention.attention.query.bias.shape == (8,)
    assert (layer.self_attention.norm_first, old.decoder.positions) == (False, "decoder" not in options)
    assert old.readout.weight.shape == (5, 8)
