"""A tagger that is trained with a label tree keeps it: in its folder, its scores, its tags and its metrics."""

import shutil

import numpy as np
import pytest

from tagloom.data import load_table
from tagloom.data.scenes import scene_classes
from tagloom.evaluation.evaluate import evaluate
from tagloom.predict.tagger import load
from tagloom.recipe import recipe_from_dict
from tagloom.tagger.spec import read_spec

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def tree_run(tmp_path_factory, scenes, feature_cache, finished_run):
    """A run, with the recipe of the shared one, on scenes whose classes stand below two halves of the alphabet."""
    from tagloom.training.plan import RunPlan
    from tagloom.training.run import train

    folder = tmp_path_factory.mktemp("tree")
    for name in ("train.csv", "val.csv"):
        shutil.copy(scenes / name, folder / name)
    (folder / "images").symlink_to(scenes / "images")
    names = sorted(scene_classes())
    halves = {"early": names[: len(names) // 2], "late": names[len(names) // 2 :]}
    text = "".join(f"{half}: [{', '.join(members)}]\n" for half, members in halves.items())
    (folder / "classes.yaml").write_text(text, encoding="utf-8")
    plan = RunPlan(str(folder / "train.csv"), str(folder / "val.csv"), recipe_from_dict(read_spec(finished_run).recipe))
    train(plan, folder / "run", cache_folder=feature_cache)
    return folder / "run"


def test_the_tree_is_in_the_folder_and_metrics_are_given_per_level(tree_run):
    spec = read_spec(tree_run)
    assert set(spec.parents.values()) == {"early", "late"}
    assert spec.tree.levels.max() == 2
    levels = spec.metrics["validation"]["levels"]
    assert (levels[0]["level"], levels[0]["classes"]) == (1, 2)
    found = dict(zip(spec.classes, spec.metrics["validation"]["AP"], strict=True))
    assert levels[0]["mAP"] == pytest.approx(np.mean([found["early"], found["late"]]))


def test_scores_and_tags_never_violate_the_tree(tree_run, scenes):
    tagger = load(tree_run)
    paths = sorted((scenes / "images").iterdir())[:20]
    scores = tagger.scores(paths)
    assert tagger.spec.tree.violations(scores) == 0
    for tags in tagger.predict(paths):
        labels = {tag.label for tag in tags}
        assert {tagger.spec.parents[label] for label in labels if label in tagger.spec.parents} <= labels


def test_a_table_without_the_tree_is_measured_with_it(tree_run, scenes):
    tagger = load(tree_run)
    flat = evaluate(tagger, load_table(scenes / "val.csv"))
    with_tree = evaluate(tagger, load_table(tree_run.parent / "val.csv"))
    assert flat.metrics == with_tree.metrics
    assert flat.metrics["levels"][0]["classes"] == 2
