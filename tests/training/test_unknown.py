"""Learning from positives and unknown pairs only, and scores from folds."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from scipy.sparse import csr_array

from tagloom.data import load_table
from tagloom.data.table import LabelTable
from tagloom.data.writing import write_known_pairs
from tagloom.recipe import recipe_from_dict
from tagloom.tagger.spec import read_spec

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def keywords(tmp_path_factory, scenes):
    """The training scenes with two thirds of their labels, and nothing said about the rest."""
    table = load_table(scenes / "train.csv")
    kept = np.random.default_rng(0).random(table.positive.shape) < 2 / 3
    images = [str(table.path(row)) for row in range(len(table))]
    positive = csr_array(table.targets(slice(None)).astype(bool) & kept)
    silent = replace(table, images=images, positive=positive, exceptions=None, unlisted="unknown")
    return write_known_pairs(silent, tmp_path_factory.mktemp("keywords") / "train.jsonl")


def run(keywords, scenes, feature_cache, quick, out, **unknown):
    from tagloom.training.plan import RunPlan
    from tagloom.training.run import train

    plan = RunPlan(str(keywords), str(scenes / "val.csv"), recipe_from_dict(quick | {"unknown": unknown}), export=False)
    train(plan, out, cache_folder=feature_cache)
    return read_spec(out)


def test_silence_is_learned_from_by_default_and_counts_as_absence_where_thresholds_are_chosen(
    keywords, scenes, feature_cache, finished_run, quick, tmp_path
):
    spec = run(keywords, scenes, feature_cache, quick, tmp_path / "run")
    full = read_spec(finished_run).metrics["validation"]["mAP"]
    assert spec.metrics["validation"]["mAP"] > 0.7 * full
    assert spec.metrics["held_aside"]["mAP"] < 100, "left out, silence would make every class perfect"
    events = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert any(event.get("learn_as") == "weak-negatives" for event in events)


def test_a_first_round_completes_the_labels_and_leaves_nothing_behind(
    keywords, scenes, feature_cache, finished_run, quick, tmp_path
):
    quick["training"]["epochs"] = 2
    run(keywords, scenes, feature_cache, quick, tmp_path / "run", learn_as="pseudo-labels")
    events = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert next(event["found"] for event in events if "found" in event) > 0
    assert not (tmp_path / "run" / "checkpoint").exists()


def test_pseudo_labels_are_the_unknown_pairs_that_score_like_known_positives():
    from tagloom.data.table import LabelTable
    from tagloom.training.unknown import pseudo_labels, with_positives

    state = np.array([[1, 1], [1, -1], [-1, -1], [-1, 0], [-1, 1]])
    logits = np.float32([[3, 9], [1, 9], [2.5, 1], [1.5, 9], [2, 1]])
    known = {"negative": csr_array(state == -1), "unknown": csr_array(state == 0)}
    for unlisted, exceptions in known.items():
        table = LabelTable(".", list("abcde"), ("x", "y"), csr_array(state == 1), exceptions, unlisted)
        gained = pseudo_labels(table, logits, np.array([True, False]))
        assert gained == [(2, 0)]  # 2.5 is above 2, the median of 3 and 1
        found = with_positives(table, gained)
        expected = np.where([[0, 0], [0, 0], [1, 0], [0, 0], [0, 0]], 1, state)
        every = np.arange(5)
        assert (np.where(found.known(every), found.targets(every).astype(int), -1) == expected).all()


def test_folds_share_every_class_and_each_image_is_in_one(scenes):
    from tagloom.training.folds import assign_folds

    table = load_table(scenes / "train.csv")
    folds = assign_folds(table, 3, seed=0)
    assert sorted(np.bincount(folds)) == [20, 20, 20]
    for fold in range(3):
        share = table.targets(folds == fold).sum(0) / np.maximum(table.targets(slice(None)).sum(0), 1)
        assert np.abs(share - 1 / 3).max() < 0.35


def test_a_fold_is_scored_by_a_tagger_that_has_not_seen_it(scenes, feature_cache, finished_run, quick):
    from tagloom.training.folds import score_out_of_fold

    table = load_table(scenes / "train.csv")
    quick["training"]["epochs"] = 2
    recipe = recipe_from_dict(quick)
    found = score_out_of_fold(table, recipe, 3, cache_folder=feature_cache)
    assert found.rows.tolist() == list(range(len(table)))
    # Other labels of one image change the scores of the other folds, and not its own.
    changed = table.targets(slice(None)).astype(bool)
    changed[7] = ~changed[7]
    from tagloom.training import folds

    fixed = folds.assign_folds(table, 3, recipe.training.seed)
    other = replace(table, positive=csr_array(changed))
    original, folds.assign_folds = folds.assign_folds, lambda *_: fixed
    try:
        again = score_out_of_fold(other, recipe, 3, cache_folder=feature_cache)
    finally:
        folds.assign_folds = original
    same = (again.logits == found.logits).all(axis=1)
    assert same[fixed == fixed[7]].all()
    assert not same[fixed != fixed[7]].any()


def test_an_image_that_vanishes_in_the_first_round_does_not_shift_pseudo_labels(tmp_path, monkeypatch):
    import torch

    from tagloom.training import unknown
    from tagloom.training.checkpoint import CheckpointStore
    from tagloom.training.context import RunContext
    from tagloom.training.features.picture_batches import PictureBatches
    from tagloom.training.features.prepare import RunBatches
    from tagloom.training.log import RunLog
    from tagloom.training.signals import StopRequest
    from tagloom.training.tables import Tables

    for row in range(6):
        Image.new("RGB", (8, 8), (20 * row,) * 3).save(tmp_path / f"{row}.png")
    positive = csr_array(np.isin(np.arange(6), [1, 2])[:, None])
    table = LabelTable(tmp_path, [f"{row}.png" for row in range(6)], ("a",), positive, unlisted="unknown")
    recipe = recipe_from_dict({"preprocess": {"size": 32}})
    learn = PictureBatches(table, recipe.preprocess, recipe.augment, batch_size=4, seed=0, workers=0)
    batches = RunBatches(learn, None, None, [], np.zeros((6, 16), np.uint8))
    monkeypatch.setattr(unknown, "fit", lambda *given, **named: (tmp_path / "3.png").unlink())
    with RunLog(tmp_path) as log:
        unknown.after_first_round(
            torch.nn.Linear(1, 1),
            lambda pictures: pictures.float().mean((1, 2, 3))[:, None],
            None,
            batches,
            Tables(table, np.zeros(6, np.bool_), None),
            recipe,
            CheckpointStore(tmp_path, "a run"),
            RunContext(tmp_path, torch.device("cpu"), tmp_path, StopRequest(), log),
        )
    assert learn.labels.table.positive.toarray()[:, 0].tolist() == [False, True, True, False, True, True]
