"""The loop: steps that mean what they say, guards that hold, and runs that continue bit for bit."""

import dataclasses
import json
import math
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import nn

from tagloom.data.table import LabelTable
from tagloom.losses import create_loss
from tagloom.recipe.parts import OptimiserSettings, TrainingSettings
from tagloom.training.checkpoint import CheckpointError, CheckpointStore
from tagloom.training.context import RunContext
from tagloom.training.features.cache import FeatureCache
from tagloom.training.features.feature_batches import FeatureBatches
from tagloom.training.log import RunLog
from tagloom.training.loop import TrainingError, fit
from tagloom.training.optimiser import create_optimiser
from tagloom.training.signals import Interrupted, StopRequest
from tagloom.training.tasks.supervised import SupervisedTask

CPU = torch.device("cpu")
COUNT, WIDTH, CLASSES = 26, 6, 3
TRAINING = TrainingSettings(epochs=3, select="last", seed=7, checkpoint_minutes=1e6)
OPTIMISING = OptimiserSettings(name="sgd", learning_rate=0.05, weight_decay=0.01)


def make_module(dropout: float = 0.0) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, CLASSES))


class Run:
    """Everything that `fit` takes, from a folder and a few choices; made again for every process that is played."""

    def __init__(self, folder: Path, *, batch_size=4, dropout=0.0, flip=0.0, optimising=None, figures=None, **settings):
        rng = np.random.default_rng(1)
        table = LabelTable(
            folder,
            [str(row) for row in range(COUNT)],
            tuple("abc"),
            csr_array(rng.random((COUNT, CLASSES)) < 0.4),
        )
        keys = [str(row) for row in range(COUNT)]
        views = []
        for name in ("plain", "mirrored"):
            cache = FeatureCache(folder / name)
            if cache.missing(keys):
                cache.add(keys, [np.random.default_rng(len(name)).normal(size=(COUNT, WIDTH)).astype(np.float32)])
            views.append(cache.view(keys))
        self.folder = folder
        self.batches = FeatureBatches(views, table, batch_size=batch_size, seed=7, chances=(1 - flip, flip))
        self.module = make_module(dropout)
        self.task = SupervisedTask(self.module, create_loss("bce"))
        self.optimising = dataclasses.replace(OPTIMISING, **(optimising or {}))
        self.optimiser = create_optimiser(self.module, self.optimising)
        self.training = dataclasses.replace(TRAINING, **settings)
        self.store = CheckpointStore(folder, str((self.training, self.optimising)))
        self.stop = StopRequest()
        self.figures = iter(figures) if figures is not None else None
        self.validated: list[dict[str, torch.Tensor]] = []

    def validate(self) -> dict[str, float]:
        assert not self.module.training
        self.validated.append(self.weights())
        if self.figures is not None:
            return {"mAP": next(self.figures)}
        return {"mAP": float(sum(value.sum() for value in self.module.state_dict().values()))}

    def weights(self) -> dict[str, torch.Tensor]:
        return {name: value.clone() for name, value in self.module.state_dict().items()}

    def fit(self) -> list[dict[str, float]]:
        with RunLog(self.folder) as log:
            return fit(
                self.module,
                self.task,
                self.batches,
                self.optimiser,
                self.training,
                self.optimising,
                validate=self.validate,
                store=self.store,
                context=RunContext(self.folder, CPU, self.folder, self.stop, log),
            )


def assert_equal(ours, theirs, atol=0.0):
    assert set(ours) == set(theirs)
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], rtol=0, atol=atol)


def differ(ours, theirs) -> bool:
    return any(not torch.equal(value, theirs[name]) for name, value in ours.items())


def test_the_loop_does_what_a_plain_loop_does(tmp_path):
    run = Run(tmp_path, optimising={"schedule": "constant", "warmup": 0.0})
    run.fit()
    module = make_module()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    for group in optimiser.param_groups:
        group["weight_decay"] = 0.0
    for epoch in range(3):
        for batch in run.batches.epoch(epoch):
            optimiser.zero_grad()
            create_loss("bce")(module(*batch.inputs), batch.targets, None).backward()
            with torch.no_grad():  # decay of matrices alone, as SGD adds it
                for parameter in module.parameters():
                    if parameter.ndim > 1:
                        parameter.grad += 0.01 * parameter
            optimiser.step()
    assert_equal(run.weights(), module.state_dict(), atol=1e-6)


def test_history_tells_loss_rate_time_and_figures_of_every_epoch(tmp_path):
    history = Run(tmp_path, epochs=4).fit()
    assert [row["epoch"] for row in history] == [1, 2, 3, 4]
    assert all({"loss", "learning_rate", "mAP", "seconds"} <= set(row) for row in history)
    assert history[-1]["loss"] < history[0]["loss"]
    assert history[-1]["learning_rate"] == pytest.approx(0.05 / 1e4)


class TwoTerms:
    """A task whose loss has two terms, which differ from batch to batch."""

    def __init__(self, run) -> None:
        self.task = run.task

    def __call__(self, batch):
        supervised = self.task(batch)["loss"]
        distance = batch.inputs[0].square().mean()
        return {"loss": supervised + distance, "supervised": supervised, "distance": distance}


def test_every_term_of_a_task_is_averaged_over_the_images_of_an_epoch_and_logged(tmp_path):
    runs = Run(tmp_path / "whole", batch_size=26), Run(tmp_path / "micro", batch_size=4, accumulate=7)
    histories = []
    for run in runs:
        run.task = TwoTerms(run)
        histories.append(run.fit())
    for whole, micro in zip(*histories, strict=True):
        assert whole["loss"] == pytest.approx(whole["supervised"] + whole["distance"], rel=1e-5)
        for name in ("loss", "supervised", "distance"):
            assert micro[name] == pytest.approx(whole[name], rel=1e-4)
    features = runs[0].batches.views[0].gather(np.arange(COUNT))[0]
    assert histories[0][0]["distance"] == pytest.approx(float(np.square(features).mean()), rel=1e-5)
    lines = [json.loads(line) for line in (tmp_path / "micro" / "log.jsonl").read_text().splitlines()]
    assert [line["distance"] for line in lines] == [row["distance"] for row in histories[1]]


def test_the_terms_of_an_epoch_that_was_stopped_halfway_continue_bit_for_bit(tmp_path):
    whole = Run(tmp_path / "whole", epochs=1)
    whole.task = TwoTerms(whole)
    (expected,) = whole.fit()
    for _ in range(len(whole.batches)):
        run = Run(tmp_path / "stopped", epochs=1)
        run.task, run.stop.signal_number = TwoTerms(run), signal.SIGTERM  # it stops after one step
        with pytest.raises(Interrupted):
            run.fit()
    again = Run(tmp_path / "stopped", epochs=1)
    again.task = TwoTerms(again)
    (found,) = again.fit()
    assert {**found, "seconds": 0} == {**expected, "seconds": 0}


def test_accumulating_two_batches_is_one_batch_twice_as_large(tmp_path):
    whole = Run(tmp_path / "whole", batch_size=8)
    parts = Run(tmp_path / "parts", batch_size=4, accumulate=2)
    history, other = whole.fit(), parts.fit()
    assert_equal(whole.weights(), parts.weights(), atol=1e-6)
    assert [row["loss"] for row in history] == pytest.approx([row["loss"] for row in other], abs=1e-6)


@pytest.mark.parametrize("accumulate", [3, 4, 100])
def test_the_images_of_an_uneven_last_group_weigh_the_same(tmp_path, accumulate):
    # 26 images in batches of 4: six batches and one of two, so that the last groups are uneven in both ways.
    whole = Run(tmp_path / "whole", batch_size=4 * accumulate)
    parts = Run(tmp_path / "parts", batch_size=4, accumulate=accumulate)
    whole.fit()
    parts.fit()
    assert_equal(whole.weights(), parts.weights(), atol=1e-6)


def test_clipping_limits_the_step_and_leaves_small_gradients_alone(tmp_path):
    plain, loose, tight = (Run(tmp_path / str(norm), optimising={"clip_norm": norm}) for norm in (0.0, 1e6, 1e-3))
    start = plain.weights()
    for run in (plain, loose, tight):
        run.fit()
    assert_equal(plain.weights(), loose.weights())

    def moved(run):
        return math.sqrt(sum(float((value - start[name]).square().sum()) for name, value in run.weights().items()))

    assert moved(tight) < 0.1 * moved(plain)


def test_a_clipped_gradient_has_the_norm_that_was_set(tmp_path):
    run = Run(tmp_path, optimising={"clip_norm": 0.01}, epochs=1)
    norms = []
    step = run.optimiser.step

    def watched(*arguments, **options):
        norms.append(math.sqrt(sum(float(value.grad.square().sum()) for value in run.module.parameters())))
        return step(*arguments, **options)

    run.optimiser.step = watched
    run.fit()
    assert norms == pytest.approx([0.01] * len(run.batches), rel=1e-3)


def poison(run: Run, at: int, what: str) -> None:
    """Let the loss, or only its gradient, be infinite at one call of the task."""
    task, calls = run.task, []

    def poisoned(batch):
        calls.append(batch)
        result = task(batch)
        if len(calls) == at:
            if what == "gradient":
                result["loss"].register_hook(lambda gradient: gradient * math.inf)
            else:
                result["loss"] = result["loss"] * float(what)
        return result

    run.task = poisoned


@pytest.mark.parametrize("what", ["nan", "inf", "gradient"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_what_is_not_finite_stops_the_run_before_weights_change(tmp_path, what, accumulate):
    clean = Run(tmp_path / "clean", epochs=1, accumulate=accumulate)
    states = []
    step = clean.optimiser.step
    clean.optimiser.step = lambda *arguments, **options: (step(*arguments, **options), states.append(clean.weights()))[
        0
    ]
    clean.fit()
    run = Run(tmp_path / "poisoned", epochs=1, accumulate=accumulate)
    poison(run, 4, what)
    with pytest.raises(TrainingError, match=r"(loss|gradient) is (nan|inf) in epoch 1, step \d; .*learning_rate"):
        run.fit()
    assert_equal(run.weights(), states[{1: 2, 2: 0}[accumulate]])


def test_the_checkpoint_of_a_run_that_blew_up_is_from_before(tmp_path):
    run = Run(tmp_path)
    poison(run, 10, "nan")  # in the second epoch
    with pytest.raises(TrainingError):
        run.fit()
    state = run.store.load()
    assert state["position"]["epoch"] == 1
    assert all(torch.isfinite(value).all() for value in state["module"].values())


def test_the_last_weights_are_left_when_the_last_are_asked_for(tmp_path):
    run = Run(tmp_path, figures=[3.0, 2.0, 1.0])
    run.fit()
    assert_equal(run.weights(), run.validated[-1])
    assert not run.module.training


@pytest.mark.parametrize(("figures", "best"), [([1.0, 3.0, 2.0], 1), ([3.0, 3.0, 3.0], 0), ([1.0, 2.0, 3.0], 2)])
@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_the_best_weights_are_left_when_the_best_are_asked_for(tmp_path, figures, best, ema):
    run = Run(tmp_path, figures=figures, select="best", ema=ema)
    run.fit()
    assert_equal(run.weights(), run.validated[best])


def test_early_stopping_waits_as_many_epochs_as_it_was_told(tmp_path):
    history = Run(tmp_path, epochs=10, patience=2, figures=[1.0, 3.0, 2.0, 2.5, 9.0]).fit()
    assert [row["mAP"] for row in history] == [1.0, 3.0, 2.0, 2.5]


def test_without_patience_no_run_stops_early(tmp_path):
    assert len(Run(tmp_path, epochs=5, figures=[5.0, 4.0, 3.0, 2.0, 1.0]).fit()) == 5


def test_a_run_that_stopped_early_does_not_continue_when_resumed(tmp_path):
    choices = {"epochs": 10, "patience": 1, "select": "best"}
    first = Run(tmp_path, figures=[3.0, 2.0], **choices)
    first.fit()
    again = Run(tmp_path, figures=[], **choices)
    assert len(again.fit()) == 2
    assert_equal(again.weights(), first.weights())


def test_the_average_is_what_is_scored_and_left(tmp_path):
    plain, averaged = Run(tmp_path / "plain"), Run(tmp_path / "averaged", ema=0.9)
    plain.fit()
    averaged.fit()
    assert differ(plain.weights(), averaged.weights())
    assert_equal(averaged.weights(), averaged.validated[-1])
    state = averaged.store.load()
    assert_equal(state["module"], plain.weights())
    assert_equal(state["average"]["shadow"], averaged.weights())


class Killed(Exception):  # noqa: N818  it is not an error
    """Stands for a process that ends in the middle of a step."""


ADAMW = {"name": "adamw", "clip_norm": 1.0}
HARD = {"epochs": 3, "dropout": 0.4, "flip": 0.5, "ema": 0.8, "accumulate": 2, "optimising": ADAMW}
STEPS_PER_EPOCH = 4  # 26 images, batches of 4, two at a time


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Final weights and history of a run with everything switched on, per way of selecting."""
    finished = {}
    for select in ("last", "best"):
        run = Run(tmp_path_factory.mktemp(select), select=select, **HARD)
        finished[select] = (run.fit(), run.weights())
    return finished


def assert_continued(run: Run, uninterrupted, select: str) -> None:
    history, weights = uninterrupted[select]
    continued = run.fit()
    assert_equal(run.weights(), weights)
    for ours, theirs in zip(continued, history, strict=True):
        assert {key: ours[key] for key in ours if key != "seconds"} == {
            key: theirs[key] for key in theirs if key != "seconds"
        }


@pytest.mark.parametrize("select", ["last", "best"])
@pytest.mark.parametrize("step", range(1, 3 * STEPS_PER_EPOCH + 1))
def test_a_run_that_was_asked_to_stop_at_any_step_continues_bit_for_bit(tmp_path, uninterrupted, step, select):
    run = Run(tmp_path, select=select, **HARD)
    taken, move = [], run.optimiser.step

    def counting(*arguments, **options):
        taken.append(move(*arguments, **options))
        if len(taken) == step:
            run.stop.signal_number = signal.SIGTERM

    run.optimiser.step = counting
    with pytest.raises(Interrupted) as caught:
        run.fit()
    assert caught.value.exit_code == 143
    position = run.store.load()["position"]
    assert position["epoch"] * STEPS_PER_EPOCH + position["step"] == step
    assert_continued(Run(tmp_path, select=select, **HARD), uninterrupted, select)


@pytest.mark.parametrize("select", ["last", "best"])
@pytest.mark.parametrize("call", [1, 5, 8, 9, 14, 20, 21])
def test_a_run_that_was_killed_in_any_step_continues_bit_for_bit(tmp_path, uninterrupted, call, select):
    run = Run(tmp_path, select=select, checkpoint_minutes=0.0, **HARD)
    task, calls = run.task, []

    def killed(batch):
        calls.append(batch)
        if len(calls) == call:
            raise Killed
        return task(batch)

    run.task = killed
    with pytest.raises(Killed):
        run.fit()
    assert_continued(Run(tmp_path, select=select, checkpoint_minutes=0.0, **HARD), uninterrupted, select)


@pytest.mark.parametrize("moment", ["before best", "after best", "after the last epoch"])
def test_a_run_that_was_killed_between_two_files_continues_bit_for_bit(tmp_path, uninterrupted, monkeypatch, moment):
    run = Run(tmp_path, select="best", **HARD)
    saves = []

    def save_best(epoch, weights):
        if moment == "after best":
            CheckpointStore.save_best(run.store, epoch, weights)
        raise Killed

    def save(state):
        CheckpointStore.save(run.store, state)
        saves.append(state)
        if len(saves) == 3:
            raise Killed

    monkeypatch.setattr(run.store, *(("save", save) if moment == "after the last epoch" else ("save_best", save_best)))
    with pytest.raises(Killed):
        run.fit()
    assert_continued(Run(tmp_path, select="best", **HARD), uninterrupted, "best")


def test_a_run_that_is_stopped_again_and_again_arrives_all_the_same(tmp_path, uninterrupted):
    for _ in range(3 * STEPS_PER_EPOCH):
        run = Run(tmp_path, **HARD)
        run.stop.signal_number = signal.SIGINT  # it stops after one step
        with pytest.raises(Interrupted):
            run.fit()
    assert_continued(Run(tmp_path, **HARD), uninterrupted, "last")


def test_dropout_is_not_the_same_in_every_step(tmp_path):
    run = Run(tmp_path, dropout=0.5, epochs=2)
    masks = []
    run.module[2].register_forward_hook(
        lambda module, inputs, output: masks.append((output == 0) & (inputs[0] != 0)) if module.training else None
    )
    run.fit()
    assert len({mask.numpy().tobytes() for mask in masks}) > len(masks) / 2


def test_the_checkpoint_of_another_recipe_is_refused(tmp_path):
    run = Run(tmp_path, epochs=1)
    run.fit()
    with pytest.raises(CheckpointError, match="another recipe"):
        Run(tmp_path, epochs=2).fit()


def test_a_checkpoint_of_an_older_version_is_refused_with_what_to_do(tmp_path):
    run = Run(tmp_path, epochs=1)
    run.store.save({"module": run.weights(), "progress": {"epoch": 0}})
    with pytest.raises(CheckpointError, match=r"older version.*Delete the run's folder 'checkpoint'"):
        run.fit()


def test_a_checkpoint_is_written_when_its_time_has_come(tmp_path):
    run = Run(tmp_path, epochs=1, checkpoint_minutes=0.0)
    saved = []
    run.store.save = lambda state: saved.append(dict(state["position"]))  # type: ignore[method-assign]
    run.fit()
    assert [position["step"] for position in saved] == [1, 2, 3, 4, 5, 6, 7, 0]
    rare = Run(tmp_path / "rare", epochs=2)
    counted = []
    rare.store.save = lambda state: counted.append(state)  # type: ignore[method-assign]
    rare.fit()
    assert len(counted) == 2, "one after every epoch in any case"


def test_a_step_whose_images_are_all_unreadable_changes_nothing(tmp_path):
    run = Run(tmp_path, epochs=1)
    epoch = run.batches.epoch

    def without_second(number, start=0):
        for index, batch in enumerate(epoch(number, start)):
            gone = index == 1
            yield dataclasses.replace(
                batch,
                inputs=tuple(value[:0] if gone else value for value in batch.inputs),
                targets=batch.targets[:0] if gone else batch.targets,
                rows=batch.rows[:0] if gone else batch.rows,
            )

    run.batches.epoch = without_second  # type: ignore[method-assign]
    history = run.fit()
    assert math.isfinite(history[0]["loss"])
