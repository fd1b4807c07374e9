"""Promise: no NaN reaches the weights, whatever the loss, its gradient or the logits are."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from tagloom.data.table import LabelTable
from tagloom.losses import create_loss
from tagloom.recipe.names import LOSSES
from tagloom.recipe.parts import OptimiserSettings, TrainingSettings
from tagloom.training.checkpoint import CheckpointStore
from tagloom.training.context import RunContext
from tagloom.training.features.cache import FeatureCache
from tagloom.training.features.feature_batches import FeatureBatches
from tagloom.training.log import RunLog
from tagloom.training.loop import TrainingError, fit
from tagloom.training.optimiser import create_optimiser
from tagloom.training.signals import StopRequest
from tagloom.training.state import Position
from tagloom.training.tasks.supervised import SupervisedTask

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
OPTIONS = {"asymmetric": [{}, {"margin": 0.0}, {"gamma_positive": 1.0}], "focal": [{}, {"gamma": 0.0}, {"alpha": 0.5}]}
EXTREME = [sign * size for size in (0.0, 1e-3, 1.0, 17.0, 40.0, 88.7, 89.0, 100.0) for sign in (-1, 1)]


def every_loss():
    for name in LOSSES:
        for options in [*OPTIONS.get(name, [{}]), {"unknown_weight": 0.5}]:
            yield pytest.param(name, options, id=f"{name} {options}")


@pytest.mark.parametrize(("name", "options"), list(every_loss()))
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_logits_to_100_give_finite_losses_and_gradients(name, options, dtype):
    pairs = torch.tensor(list(itertools.product(EXTREME, EXTREME)))
    for positive in ([1, 0], [0, 1], [1, 1], [0, 0]):
        for known in (None, torch.tensor([[True, False]]).expand(len(pairs), -1)):
            logits = pairs.to(dtype).requires_grad_()
            loss = create_loss(name, **options)(logits, torch.tensor([positive]).expand(len(pairs), -1), known)
            loss.backward()
            assert loss.dtype is torch.float32
            assert math.isfinite(float(loss.detach()))
            assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("logit", [0.0, 100.0, -100.0, math.inf, -math.inf, math.nan])
def test_a_fully_unknown_batch_costs_exactly_nothing(name, logit):
    logits = torch.full((4, 3), logit, requires_grad=True)
    loss = create_loss(name)(logits, torch.eye(4, 3), torch.zeros(4, 3, dtype=torch.bool))
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert (logits.grad == 0).all()


def a_run(folder):
    """Make a small training with a batch norm, 3 epochs of 7 steps: how to run it, its checkpoints and its module."""
    rng = np.random.default_rng(0)
    keys = [str(row) for row in range(26)]
    table = LabelTable(folder, keys, ("a", "b"), csr_array(rng.random((26, 2)) < 0.5))
    cache = FeatureCache(folder / "features")
    if cache.missing(keys):
        cache.add(keys, [rng.normal(size=(26, 4)).astype(np.float32)])
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
    training = TrainingSettings(epochs=3, select="best", ema=0.9, checkpoint_minutes=0.0)
    optimising = OptimiserSettings(name="adamw", learning_rate=1e-3)
    store, task = CheckpointStore(folder, "a run"), SupervisedTask(module, create_loss("bce"))

    def run(change=lambda task, batch: task(batch)):
        with RunLog(folder) as log:
            return fit(
                module,
                lambda batch: change(task, batch),
                FeatureBatches([cache.view(keys)], table, batch_size=4, seed=0),
                create_optimiser(module, optimising),
                training,
                optimising,
                validate=lambda: {"mAP": 1.0},
                store=store,
                context=RunContext(folder, torch.device("cpu"), folder, StopRequest(), log),
            )

    return run, store, module


def all_finite(content) -> bool:
    if isinstance(content, dict):
        return all(all_finite(value) for value in content.values())
    if isinstance(content, list | tuple):
        return all(all_finite(value) for value in content)
    return not isinstance(content, torch.Tensor) or bool(torch.isfinite(content).all())


@pytest.mark.fuzz
def test_what_is_not_finite_at_any_step_never_reaches_a_checkpoint(tmp_path, fuzz_rounds):
    rng = np.random.default_rng()
    for number in range(fuzz_rounds(100)):
        folder = tmp_path / str(number)
        run, store, _ = a_run(folder)
        at, value = int(rng.integers(1, 22)), [math.nan, math.inf, -math.inf][rng.integers(3)]
        what = ["loss", "gradient", "inputs"][rng.integers(3)]
        calls = []

        def poison(task, batch, calls=calls, at=at, what=what, value=value):
            calls.append(1)
            if len(calls) != at:
                return task(batch)
            if what == "inputs":  # it passes through the batch norm before the loss is known
                return task(replace(batch, inputs=(batch.inputs[0] * value,)))
            terms = task(batch)
            if what == "loss":
                return {"loss": terms["loss"] * value}
            terms["loss"].register_hook(lambda gradient: gradient * value)
            return terms

        with pytest.raises(TrainingError, match=r"is (nan|inf|-inf) in epoch"):
            run(poison)
        state = store.load()
        if state is not None:
            assert all_finite(state), f"round {number}: {what} {value} at step {at}"
            assert state["position"]["epoch"] * 7 + state["position"]["step"] <= 21
        assert at == 1 or state is not None
        again, store, module = a_run(folder)
        again()
        assert all_finite(module.state_dict())


@pytest.mark.parametrize("moment", ["a checkpoint", "the best weights"])
def test_weights_that_overflow_in_a_step_are_not_saved(tmp_path, monkeypatch, moment):
    run, store, module = a_run(tmp_path)
    real = Position.add_step

    def overflow(position, terms):
        real(position, terms)
        if position.epoch == 1 and position.step == (3 if moment == "a checkpoint" else 7):
            with torch.no_grad():
                module[0].weight[0, 0] = math.inf

    monkeypatch.setattr(Position, "add_step", overflow)
    with pytest.raises(TrainingError, match=r"largest weight is inf in epoch 2.*last checkpoint is from before"):
        run()
    assert all_finite(store.load())
    assert all_finite(store.load_best(0))


def test_running_statistics_that_overflow_are_not_saved(tmp_path):
    run, store, module = a_run(tmp_path)

    def spoil(task, batch):
        module[1].running_var.fill_(math.nan)  # training does not read it, so the loss stays finite
        return task(batch)

    with pytest.raises(TrainingError, match="largest weight is nan in epoch 1"):
        run(spoil)
    assert store.load() is None
