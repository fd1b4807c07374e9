"""The loop: one for every task, on any device, that can be stopped and resumed at any step."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import torch
from torch import Tensor, nn

from tagloom.errors import TagloomError
from tagloom.recipe.parts import OptimiserSettings, TrainingSettings
from tagloom.training.checkpoint import CheckpointStore
from tagloom.training.context import RunContext
from tagloom.training.dropout import quick_dropout
from tagloom.training.features.batches import Batch, Batches
from tagloom.training.memory import keep_freed_memory
from tagloom.training.optimiser import learning_rate_at, momentum_at, moving_tensors, set_learning_rate, set_momentum
from tagloom.training.products import fast_products
from tagloom.training.state import Position, TrainingState
from tagloom.training.tasks.supervised import Task

Validate = Callable[[], dict[str, float]]
Terms = dict[str, float]
"""The scalars that a task gives, by name; "loss" is one of them."""


class TrainingError(TagloomError):
    """The training cannot continue without a change."""


def fit(
    module: nn.Module,
    task: Task,
    batches: Batches,
    optimiser: torch.optim.Optimizer,
    training: TrainingSettings,
    optimising: OptimiserSettings,
    *,
    validate: Validate,
    store: CheckpointStore,
    context: RunContext,
) -> list[dict[str, float]]:
    """Train a module and leave it with the weights that were chosen: best or last, averaged where there is an average.

    Args:
        module: What is trained; its trainable parameters are the optimiser's.
        task: Gives the loss of a batch, and other terms to log.
        batches: The training data.
        optimiser: Made for the module's parameters.
        training: The recipe's; says how long and how to train.
        optimising: The recipe's; says how the learning rate moves and where gradients are clipped.
        validate: Measures the module as it is; called after every epoch.
        store: Keeps checkpoints. If it holds one of this run, the run continues from there.
        context: When a stop is requested, a checkpoint is written and `Interrupted` raised.

    Returns:
        One dict per epoch: the task's terms, learning rate, validation metrics and seconds.
    """
    keep_freed_memory()
    module.to(context.device)
    half = _half_precision(training.precision, context.device)
    scaler = torch.amp.GradScaler(context.device.type, enabled=half is torch.float16)
    context.world.copy_from_first(module)
    state = TrainingState(module, optimiser, training.ema, scaler)
    checkpoint = store.load()
    if checkpoint is not None:
        state.restore(checkpoint)
    _check_same_place(state.position, store, context)
    loop = _Loop(state, task, batches, training, optimising, half, store, context)
    with fast_products(context.device), quick_dropout(context.device):
        while state.position.epoch < training.epochs and not _out_of_patience(state.position, training):
            loop.run_epoch(validate)
    if training.select == "best" and state.position.best_epoch >= 0:
        module.load_state_dict(store.load_best(state.position.best_epoch))
    elif state.average:
        state.average.swap(module)
    module.eval()
    return state.position.history


@dataclass
class _Loop:
    """The steps of a training, epoch by epoch. All that changes is in `state`, apart from when it was last saved."""

    state: TrainingState
    task: Task
    batches: Batches
    training: TrainingSettings
    optimising: OptimiserSettings
    half: torch.dtype | None
    store: CheckpointStore
    context: RunContext
    saved_at: float = field(default_factory=time.monotonic)

    @property
    def steps_per_epoch(self) -> int:
        """Count the optimiser steps of an epoch."""
        return -(-len(self.batches) // self.training.accumulate)

    def run_epoch(self, validate: Validate) -> None:
        """Run the rest of the current epoch, validate, and note which epoch is the best."""
        state, position, training = self.state, self.state.position, self.training
        started = time.monotonic()
        self.context.log.epoch_starts(position.epoch, training.epochs, self.steps_per_epoch, position.step)
        state.module.train()
        rest = self.batches.epoch(position.epoch, position.step * training.accumulate)
        for micro_batches in _groups(rest, training.accumulate):
            self._take_step(micro_batches)
        state.module.eval()
        with state.averaged():
            metrics = validate()
            if metrics.get(training.metric, -math.inf) > position.best:
                position.best, position.best_epoch = metrics[training.metric], position.epoch
                if training.select == "best":
                    self._check_weights()
                    self._on_first(lambda: self.store.save_best(position.epoch, state.module.state_dict()))
        row: dict[str, float] = {"epoch": position.epoch + 1}
        row |= {name: total / self.steps_per_epoch for name, total in position.sums.items()}
        row["learning_rate"] = self._rate_at((position.epoch + 1) * self.steps_per_epoch - 1)
        row |= metrics | {"seconds": time.monotonic() - started}
        position.end_epoch(row)
        self.context.log.epoch_ends(row)
        self._save()
        self._on_first(lambda: self.store.drop_bests_but(position.best_epoch))

    def _take_step(self, micro_batches: list[Batch]) -> None:
        """Take one optimiser step, report it, and save where it is time or somebody asked to stop."""
        position = self.state.position
        step = position.epoch * self.steps_per_epoch + position.step
        torch.manual_seed(_seed_of_step(self.training.seed, step, self.context.world.rank))
        set_learning_rate(self.state.optimiser, self._rate_at(step))
        set_momentum(self.state.optimiser, self._momentum_at(step))
        terms = self._optimise(micro_batches)
        if self.state.average:
            self.state.average.update(self.state.module)
        position.add_step(terms)
        self.context.log.step(position.epoch, terms)
        stop, is_due = self.context.stop, time.monotonic() - self.saved_at > self.training.checkpoint_minutes * 60
        asked, due = self.context.world.largest(stop.signal_number or 0, is_due)
        if asked or due:
            self._save()
        if asked:  # a signal that comes only now has its turn after the next step: the others have not heard of it
            stop.signal_number = asked
            stop.leave_if_requested()

    def _optimise(self, micro_batches: list[Batch]) -> Terms:
        """Add up the gradients of micro-batches and move the weights; give the mean of every term over the images.

        A batch may be one process's share of it. The shares are weighted by their images, so that the sum over all
        processes is the mean over the whole batch.
        """
        optimiser, scaler, world = self.state.optimiser, self.state.scaler, self.context.world
        mine = sum(len(batch.rows) for batch in micro_batches)
        images = world.total(mine)
        if images == 0:
            return {"loss": 0.0}  # every image of the step was unreadable
        means: Terms = {}
        optimiser.zero_grad(set_to_none=True)
        for batch in micro_batches:
            terms = self._weighted_terms(batch, len(batch.rows) / images)
            values = torch.stack([value.detach() for value in terms.values()]).tolist() if terms else []
            for name, value in world.sum(dict(zip(terms, values, strict=True))).items():
                means[name] = means.get(name, 0.0) + value
            self._check_finite("loss", means.get("loss", 0.0))
            if terms:
                scaler.scale(terms["loss"]).backward()  # type: ignore[no-untyped-call]
        parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
        world.add_gradients(parameters)
        world.average_statistics(self.state.module, mine / images)
        scaler.unscale_(optimiser)
        norm = float(nn.utils.clip_grad_norm_(parameters, self.optimising.clip_norm or math.inf))
        if not scaler.is_enabled():  # an enabled scaler skips such a step itself
            self._check_finite("gradient", norm)
        scaler.step(optimiser)
        scaler.update()
        return means

    def _weighted_terms(self, batch: Batch, share: float) -> dict[str, Tensor]:
        """Give the terms of a batch times its share of the images of the step; none if it has no images."""
        if len(batch.rows) == 0:
            return {}
        with torch.autocast(self.context.device.type, dtype=self.half, enabled=self.half is not None):
            terms = self.task(batch.to(self.context.device))
        return {name: value.float() * share for name, value in terms.items()}

    def _rate_at(self, step: int) -> float:
        return learning_rate_at(
            step,
            self.training.epochs * self.steps_per_epoch,
            peak=self.optimising.learning_rate,
            schedule=self.optimising.schedule,
            warmup=self.optimising.warmup,
        )

    def _momentum_at(self, step: int) -> float:
        return momentum_at(
            step,
            self.training.epochs * self.steps_per_epoch,
            momentum=self.optimising.momentum,
            schedule=self.optimising.schedule,
            warmup=self.optimising.warmup,
        )

    def _save(self) -> None:
        self._check_weights()
        self._on_first(lambda: self.store.save(self.state.to_checkpoint()))
        self.saved_at = time.monotonic()

    def _on_first(self, write: Callable[[], None]) -> None:
        self.context.world.from_first(write)

    def _check_weights(self) -> None:
        """Refuse to save weights that are not finite: a step with finite gradients can still overflow them."""
        for _, tensor in moving_tensors(self.state.module):
            if not bool(torch.isfinite(tensor).all()):
                self._check_finite("largest weight", float(tensor.detach().abs().max()))

    def _check_finite(self, what: str, value: float) -> None:
        if not math.isfinite(value):
            position = self.state.position
            step = position.epoch * self.steps_per_epoch + position.step
            raise TrainingError(
                f"the {what} is {value} in epoch {position.epoch + 1}, step {step + 1}; the last checkpoint is from "
                "before that. Lower optimiser.learning_rate, set optimiser.clip_norm (for example 5), or check the "
                "inputs."
            )


def _groups(batches: Iterator[Batch], size: int) -> Iterator[list[Batch]]:
    while group := list(islice(batches, size)):
        yield group


def _check_same_place(position: Position, store: CheckpointStore, context: RunContext) -> None:
    """Refuse processes that did not all read the same checkpoint."""
    places = context.world.gather([position.epoch, position.step])
    if any(place != places[0] for place in places):
        raise TrainingError(
            f"{store.folder}: the processes of this run do not see the same checkpoint there. Name an --out on a disk "
            "that all machines share."
        )


def _seed_of_step(seed: int, step: int, rank: int) -> int:
    """Give the seed of the network's own randomness (dropout), so that a resumed run repeats it.

    Every process draws its own: with the same seed, the shares of a batch would all be dropped alike.
    """
    if rank == 0:
        return (seed << 32) + step
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> 1)


def _out_of_patience(position: Position, training: TrainingSettings) -> bool:
    return 0 < training.patience <= position.epoch - 1 - position.best_epoch


def _half_precision(precision: str, device: torch.device) -> torch.dtype | None:
    """Choose half precision on GPUs only: bfloat16 stops some CPUs with an illegal instruction."""
    if precision == "float32" or device.type != "cuda":
        return None
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
