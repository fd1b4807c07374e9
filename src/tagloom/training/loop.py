"""The loop: one for every task, on any device, that can be stopped and taken up at any step."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from tagloom.errors import TagloomError
from tagloom.training.checkpoint import CheckpointStore
from tagloom.training.features.batches import Batches
from tagloom.training.log import RunLog
from tagloom.training.optimiser import WeightAverage, learning_rate_at, set_learning_rate
from tagloom.training.signals import StopRequest
from tagloom.training.tasks.supervised import Batch, Task

_NOT_FINITE = (
    "the {what} in epoch {epoch}, step {step}; the last checkpoint is from before that. Lower optimiser.learning_rate, "
    "set optimiser.clip_norm (for example 5), or check the inputs."
)


class TrainingError(TagloomError):
    """The training cannot go on by itself."""


@dataclass(frozen=True)
class LoopSettings:
    """How long and how; each field is explained in `tagloom.recipe.recipe`."""

    epochs: int
    learning_rate: float
    schedule: str
    warmup: float
    clip_norm: float
    accumulate: int
    ema: float
    precision: str
    select: str
    metric: str
    patience: int
    seed: int
    checkpoint_minutes: float


@dataclass
class Progress:
    """Where a run is. It travels in the checkpoint."""

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    best: float = -math.inf
    best_epoch: int = -1
    history: list[dict[str, float]] = field(default_factory=list)


def fit(
    module: nn.Module,
    task: Task,
    batches: Batches,
    optimiser: torch.optim.Optimizer,
    settings: LoopSettings,
    *,
    validate: Callable[[], dict[str, float]],
    store: CheckpointStore,
    log: RunLog,
    stop: StopRequest,
    device: torch.device,
) -> list[dict[str, float]]:
    """Train a module and leave it with the weights asked for: best or last, averaged where there is an average.

    Args:
        module: What is trained; its trainable parameters are the optimiser's.
        task: Gives the loss of a batch.
        batches: The training data.
        optimiser: Made for the module's parameters.
        settings: How long and how.
        validate: Scores the module as it stands; called after every epoch.
        store: Keeps checkpoints. If it holds one of this run, the run continues from there.
        log: Told of every step and epoch.
        stop: When requested, a checkpoint is written and `Interrupted` raised.
        device: Where to compute.

    Returns:
        One dict per epoch: loss, learning rate, seconds and the validation metrics.
    """
    module.to(device)
    average = WeightAverage(module, settings.ema) if settings.ema > 0 else None
    half = _half_precision(settings.precision, device)
    scaler = torch.amp.GradScaler(device.type, enabled=half is torch.float16)
    progress = _resume(store, module, optimiser, average, scaler)
    steps_per_epoch = -(-len(batches) // settings.accumulate)
    saved_at = time.monotonic()

    def rate_at(step: int) -> float:
        return learning_rate_at(
            step,
            settings.epochs * steps_per_epoch,
            peak=settings.learning_rate,
            schedule=settings.schedule,
            warmup=settings.warmup,
        )

    def save() -> None:
        store.save(
            {
                "module": module.state_dict(),
                "optimiser": optimiser.state_dict(),
                "average": average.state_dict() if average else None,
                "scaler": scaler.state_dict(),
                "progress": vars(progress),
            }
        )

    while progress.epoch < settings.epochs and not _out_of_patience(progress, settings):
        started = time.monotonic()
        log.epoch_starts(progress.epoch, settings.epochs, steps_per_epoch, progress.step)
        module.train()
        for group in _groups(batches.epoch(progress.epoch, progress.step * settings.accumulate), settings.accumulate):
            step = progress.epoch * steps_per_epoch + progress.step
            # The network's own randomness (dropout) follows from seed and step, so a resumed run repeats it.
            torch.manual_seed((settings.seed << 32) + step)
            set_learning_rate(optimiser, rate_at(step))
            loss = _step(task, group, optimiser, scaler, settings.clip_norm, half, device, where=(progress.epoch, step))
            if average:
                average.update(module)
            progress.step += 1
            progress.loss_sum += loss
            log.step(progress.epoch, loss)
            if stop.requested:
                save()
                stop.leave_if_requested()
            if time.monotonic() - saved_at > settings.checkpoint_minutes * 60:
                save()
                saved_at = time.monotonic()
        row = {
            "epoch": progress.epoch + 1,
            "loss": progress.loss_sum / steps_per_epoch,
            "learning_rate": rate_at(progress.epoch * steps_per_epoch + steps_per_epoch - 1),
        }
        row |= _validated(module, average, validate) | {"seconds": time.monotonic() - started}
        progress.history.append(row)
        if row.get(settings.metric, -math.inf) > progress.best:
            progress.best, progress.best_epoch = row[settings.metric], progress.epoch
            if settings.select == "best":
                _with_average(module, average, lambda: store.save_best(module.state_dict()))
        progress.epoch, progress.step, progress.loss_sum = progress.epoch + 1, 0, 0.0
        log.epoch_ends(row)
        save()
        saved_at = time.monotonic()
    best = store.load_best() if settings.select == "best" else None
    if best is not None:
        module.load_state_dict(best)
    elif average:
        average.swap(module)
    module.eval()
    return progress.history


def _step(
    task: Task,
    group: list[Batch],
    optimiser: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    clip_norm: float,
    half: torch.dtype | None,
    device: torch.device,
    where: tuple[int, int],
) -> float:
    """Run one optimiser step over a group of micro-batches and give its mean loss."""
    images = sum(len(batch.rows) for batch in group)
    if images == 0:
        return 0.0  # every image of the step was unreadable
    total = 0.0
    optimiser.zero_grad(set_to_none=True)
    for batch in group:
        if len(batch.rows) == 0:
            continue
        with torch.autocast(device.type, dtype=half, enabled=half is not None):
            loss: Tensor = task(batch.to(device))["loss"]
        loss = loss * (len(batch.rows) / images)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise TrainingError(_NOT_FINITE.format(what=f"loss is {value}", epoch=where[0] + 1, step=where[1] + 1))
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        total += value
    scaler.unscale_(optimiser)
    parameters = [parameter for row in optimiser.param_groups for parameter in row["params"]]
    norm = float(nn.utils.clip_grad_norm_(parameters, clip_norm or math.inf))
    if not math.isfinite(norm) and not scaler.is_enabled():  # an enabled scaler passes over such a step by itself
        raise TrainingError(_NOT_FINITE.format(what=f"gradient is {norm}", epoch=where[0] + 1, step=where[1] + 1))
    scaler.step(optimiser)
    scaler.update()
    return total


def _resume(
    store: CheckpointStore,
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
    average: WeightAverage | None,
    scaler: torch.amp.GradScaler,
) -> Progress:
    """Take up the newest checkpoint, or begin."""
    state: dict[str, Any] | None = store.load()
    if state is None:
        return Progress()
    module.load_state_dict(state["module"])
    optimiser.load_state_dict(state["optimiser"])
    if average and state["average"]:
        average.load_state_dict(state["average"])
    scaler.load_state_dict(state["scaler"])
    return Progress(**state["progress"])


def _with_average(module: nn.Module, average: WeightAverage | None, action: Callable[[], Any]) -> Any:
    """Do something while the module holds the averaged weights."""
    if average:
        average.swap(module)
    try:
        return action()
    finally:
        if average:
            average.swap(module)


def _validated(
    module: nn.Module, average: WeightAverage | None, validate: Callable[[], dict[str, float]]
) -> dict[str, float]:
    module.eval()
    result: dict[str, float] = _with_average(module, average, validate)
    return result


def _groups(batches: Iterator[Batch], size: int) -> Iterator[list[Batch]]:
    while group := list(islice(batches, size)):
        yield group


def _out_of_patience(progress: Progress, settings: LoopSettings) -> bool:
    return 0 < settings.patience <= progress.epoch - 1 - progress.best_epoch


def _half_precision(precision: str, device: torch.device) -> torch.dtype | None:
    """Choose half precision on GPUs only: bfloat16 stops some CPUs with an illegal instruction."""
    if precision == "float32" or device.type != "cuda":
        return None
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
