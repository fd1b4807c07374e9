"""What a student is told about an image is what its teachers say about the view that it sees."""

import torch

from tagloom.recipe import recipe_from_dict
from tagloom.recipe.distillation import Distillation
from tagloom.training.distill import run as run_module
from tagloom.training.distill.asking import ask_teachers, merge_teachers
from tagloom.training.distill.run import distill
from tagloom.training.plan import RunPlan

RECIPE = {
    "preprocess": {"size": 32},
    "data": {"holdout": 0.2},
    "augment": {"flip": 0.5, "cutout": 0.4},
    "backbone": {"name": "test_efficientnet", "weights": "none"},
    "optimiser": {"name": "adamw", "learning_rate": 0.01},
    "training": {"epochs": 2, "batch_size": 16, "select": "last", "cached_views": 3},
}


def test_in_every_cached_view_the_target_is_the_teachers_logit_on_that_same_view(scenes, tmp_path, monkeypatch):
    asked = {}

    def noting(teachers, baseline, settings, batches, context):
        asked.update(teachers=teachers, batches=batches)
        asked["teaching"] = ask_teachers(teachers, baseline, settings, batches, context)
        return asked["teaching"]

    monkeypatch.setattr(run_module, "ask_teachers", noting)
    plan = RunPlan(
        str(scenes / "train.csv"), None, recipe_from_dict(RECIPE), export=False, distill=Distillation(2, ("dis",), k=2)
    )
    distill(plan, tmp_path / "run", cache_folder=tmp_path / "cache")
    learn = asked["batches"].learn
    teachers = merge_teachers(asked["teachers"], learn.labels.table.classes, torch.device("cpu"))
    targets = asked["teaching"].groups["dis"].logits
    assert targets.views.shape == (4, 48, 24), "the plain view and three augmented ones"
    seen = set()
    for epoch in range(3):
        for batch in learn.epoch(epoch):
            torch.testing.assert_close(targets(batch), teachers(*batch.inputs), rtol=1e-4, atol=1e-4)
            seen.update(batch.view.tolist())
    assert seen == {0, 1, 2, 3}
    for view in (1, 2, 3):
        assert (targets.views[view] - targets.views[0]).abs().amax(dim=1).median() > 1e-2, "views are told apart"
