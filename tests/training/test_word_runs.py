"""Training heads with words: what is refused, what is written, and that any such head becomes a tagger."""

import copy

import numpy as np
import pytest

from tagloom.data.scenes import scene_classes
from tagloom.errors import RecipeError, TagloomError
from tagloom.models.network import load_network
from tagloom.predict.tagger import load
from tagloom.recipe import load_recipe, override, recipe_from_dict
from tagloom.recipe.distillation import Distillation
from tagloom.tagger.spec import read_spec
from tagloom.training import run as run_module
from tagloom.training.distill.run import distill
from tagloom.training.plan import RunPlan, check_options
from tagloom.training.run import train
from tagloom.words import encode_labels
from tagloom.words.vector_files import read_vectors

UNSEEN = ("anchor", "car", "heart", "tree")
SIZES = {"width": 16, "feed_forward": 16, "attention_heads": 2}
TINY = {
    "preprocess": {"size": 32},
    "data": {"holdout": 0.2},
    "backbone": {"name": "test_efficientnet", "weights": "none"},
    "training": {"epochs": 1, "batch_size": 16, "workers": 0, "select": "last"},
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TAGLOOM_CACHE", str(tmp_path / "cache"))


def recipe_of(glove, head, words=None, **options):
    content = copy.deepcopy(TINY)
    content["words"] = {"source": str(glove), **(words or {})}
    content["head"] = {"name": head, "options": SIZES | options}
    return recipe_from_dict(content)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("ml-decoder-words-grouped", {"groups": 6}, {"query_noise": 0.1, "random_queries": 2}),
        ("ml-decoder-words-grouped", {"groups": 6, "queries": "learnable"}, {"query_noise": 0.1}),
        ("ml-decoder-words-grouped", {"groups": 6, "readout": "shared", "grouping": "consecutive"}, {}),
    ],
)
def test_grouped_heads_score_any_labels_the_same_in_both_engines(scenes, glove, tmp_path, name, options, words):
    seen = tuple(label for label in scene_classes() if label not in UNSEEN)
    plan = RunPlan(str(scenes / "train.csv"), None, recipe_of(glove, name, words, **options), classes=seen)
    train(plan, tmp_path / "run", cache_folder=tmp_path / "cache")
    exported = load(tmp_path / "run")
    assert exported.engine == "onnx"
    (tmp_path / "run" / "model.onnx").unlink()
    plain = load(tmp_path / "run")
    picture = sorted((scenes / "images").iterdir())[0]
    for labels in (None, ["car"], [*UNSEEN, "boat", "wedding", *(f"w{number}" for number in range(30))]):
        np.testing.assert_allclose(exported.scores(picture, labels), plain.scores(picture, labels), atol=1e-5)


def test_a_head_whose_readout_is_of_its_classes_keeps_its_words_and_takes_no_others(scenes, glove, tmp_path):
    recipe = recipe_of(glove, "ml-decoder-words-grouped", groups=6, readout="group")
    train(RunPlan(str(scenes / "train.csv"), None, recipe), tmp_path / "run", cache_folder=tmp_path / "cache")
    spec = read_spec(tmp_path / "run")
    assert spec.words is None
    table = read_vectors(tmp_path / "run" / "words.safetensors")
    assert table.labels == spec.classes
    np.testing.assert_allclose(table.vectors, encode_labels(spec.classes, str(glove)), atol=1e-6)
    assert load_network(tmp_path / "run", spec).head.words is not None
    with pytest.raises(TagloomError, match="labels only"):
        load(tmp_path / "run").with_labels(["car"])


def test_a_run_goes_on_from_another_working_directory(scenes, glove, tmp_path, monkeypatch):
    monkeypatch.chdir(glove.parent)
    plan = RunPlan(str(scenes / "train.csv"), None, recipe_of(glove.name, "ml-decoder-words"))
    plan.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    again = RunPlan.read(tmp_path)
    assert again.recipe.words.source == str(glove)
    again.check_same(again)
    monkeypatch.chdir(glove.parent)
    again.check_same(plan)


def test_augmentations_are_refused_where_they_cannot_be(glove, scenes, tmp_path, monkeypatch):
    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError("pictures were read before the head was found unfit")

    monkeypatch.setattr(run_module, "make_batches", refuse)
    both = {"query_noise": 0.1, "random_queries": 2}
    for head, options in (
        ("ml-decoder-words-grouped", {"readout": "group"}),
        ("ml-decoder-words-grouped", {"queries": "learnable"}),
        ("tf", {"queries": "words"}),
        ("ml-decoder-words", {"decoder": "self-attention"}),
    ):
        plan = RunPlan(str(scenes / "train.csv"), None, recipe_of(glove, head, both, **options))
        with pytest.raises(RecipeError, match="take any words"):
            train(plan, tmp_path / f"{head}-{len(options)}-{options}", cache_folder=tmp_path / "cache")
    with pytest.raises(RecipeError, match="has none"):
        check_options(recipe_of(glove, "ml-decoder", both))
    with pytest.raises(RecipeError, match="random_queries"):
        override(recipe_of(glove, "ml-decoder-words", both), ["loss.options.weights=[1.0]"])
    with pytest.raises(RecipeError, match="random_queries"):
        override(recipe_of(glove, "ml-decoder-words", both), ["task=single", "loss.name=cross-entropy"])
    plan = RunPlan(
        str(scenes / "train.csv"), None, recipe_of(glove, "ml-decoder-words", both), distill=Distillation(1, k=2)
    )
    with pytest.raises(RecipeError, match=r"words of their own classes only.*labels_per_step"):
        distill(plan, tmp_path / "student", cache_folder=tmp_path / "cache")


def test_augmentations_are_off_outside_the_recipe_of_words():
    assert not recipe_from_dict({}).words.augmented
    assert load_recipe("quick-words").words.augmented
    assert not load_recipe("quick").words.augmented
