"""Optimisers, learning-rate schedules and the running average of weights."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from timm.optim.lamb import Lamb
from torch import Tensor, nn

from tagloom.recipe.parts import OptimiserSettings

MOMENTUM_SWING = 0.05  # so that 0.9 gives 0.95 to 0.85, the ends of torch's OneCycleLR


def create_optimiser(module: nn.Module, settings: OptimiserSettings) -> torch.optim.Optimizer:
    """Make AdamW, Adam, SGD or LAMB over the trainable parameters.

    Vectors (biases, norms) are never decayed, and parameters under `backbone.` get the rate times `backbone_factor`.
    Each group carries its `factor`; `set_learning_rate` multiplies by it.
    """
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            groups.setdefault((name.startswith("backbone."), parameter.ndim > 1), []).append(parameter)
    rows: list[dict[str, Any]] = [
        {
            "params": parameters,
            "weight_decay": settings.weight_decay if is_matrix else 0.0,
            "factor": settings.backbone_factor if in_backbone else 1.0,
        }
        for (in_backbone, is_matrix), parameters in sorted(groups.items(), key=lambda item: item[0])
    ]
    rate, momentum = settings.learning_rate, settings.momentum
    if settings.name == "sgd":
        return torch.optim.SGD(rows, lr=rate, momentum=momentum, nesterov=settings.nesterov and momentum > 0)
    if settings.name == "lamb":
        # The loop clips gradients for every optimiser, so LAMB's own clipping is switched off.
        return Lamb(rows, lr=rate, betas=(momentum, settings.second_momentum), max_grad_norm=None)
    adam = torch.optim.Adam if settings.name == "adam" else torch.optim.AdamW
    return adam(rows, lr=rate, betas=(momentum, settings.second_momentum))


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the rate of every group to `rate` times the group's factor."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group["factor"]


def set_momentum(optimiser: torch.optim.Optimizer, momentum: float) -> None:
    """Set the momentum of every group: of SGD, or the first beta of the others."""
    for group in optimiser.param_groups:
        if "betas" in group:
            group["betas"] = (momentum, group["betas"][1])
        else:
            group["momentum"] = momentum


def momentum_at(step: int, steps: int, *, momentum: float, schedule: str, warmup: float) -> float:
    """Give the momentum of a step: the same throughout, but with "one-cycle-torch" the mirror image of the rate.

    Args:
        step: From 0 to steps - 1.
        steps: Steps of the whole training.
        momentum: The middle of what it is cycled through, from 0.05 above to 0.05 below and back.
        schedule: As for `learning_rate_at`.
        warmup: Share of the steps in which it falls.
    """
    if schedule != "one-cycle-torch":
        return momentum
    return _torch_cycle(step, steps, warmup, momentum + MOMENTUM_SWING, momentum - MOMENTUM_SWING, None)


def learning_rate_at(step: int, steps: int, *, peak: float, schedule: str, warmup: float) -> float:
    """Give the learning rate of a step; a pure function, so that resuming needs no state.

    Args:
        step: From 0 to steps - 1.
        steps: Steps of the whole training.
        peak: The highest rate.
        schedule: "one-cycle" rises from peak / 25 and falls to peak / 10,000, both along cosines; "one-cycle-torch"
            falls to peak / 250,000 and turns a step earlier, as torch's OneCycleLR does; "cosine" rises linearly and
            falls to 0 along a cosine; "constant" rises linearly and stays.
        warmup: Share of the steps in which it rises.

    >>> [round(learning_rate_at(s, 4, peak=1.0, schedule="cosine", warmup=0.0), 2) for s in range(4)]
    [1.0, 0.85, 0.5, 0.15]
    """
    if schedule == "one-cycle-torch":
        return _torch_cycle(step, steps, warmup, peak / 25, peak, peak / 25e4)
    rising = warmup * steps
    if schedule == "one-cycle":
        if step < rising:
            return _cosine(peak / 25, peak, step / rising)
        return _cosine(peak, peak / 1e4, (step - rising) / max(1.0, steps - 1 - rising))
    if step < rising:
        return peak * (step + 1) / (rising + 1)
    return peak if schedule == "constant" else _cosine(peak, 0.0, (step - rising) / max(1.0, steps - rising))


def _torch_cycle(step: int, steps: int, warmup: float, start: float, turn: float, end: float | None) -> float:
    """Go from start to turn and on to end (None for back to start) along cosines, turning where OneCycleLR does."""
    turning = warmup * steps - 1
    if step <= turning and turning > 0:
        return _cosine(start, turn, step / turning)
    return _cosine(turn, start if end is None else end, (step - turning) / max(1.0, steps - 1 - turning))


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))


class WeightAverage:
    """An exponential moving average of a module's trained tensors (and running statistics).

    The decay grows with the steps t, min(decay, (1 + t) / (10 + t)), so that the first steps are soon forgotten.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        self.shadow = {name: value.detach().clone() for name, value in moving_tensors(module)}

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Move the average towards the module's current weights."""
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        for name, value in moving_tensors(module):
            self.shadow[name].lerp_(value.detach(), 1 - decay)

    @torch.no_grad()
    def swap(self, module: nn.Module) -> None:
        """Swap the module's weights with the average; a second call swaps them back."""
        for name, value in moving_tensors(module):
            kept = value.detach().clone()
            value.copy_(self.shadow[name])
            self.shadow[name].copy_(kept)

    def state_dict(self) -> dict[str, Any]:
        """Give what a checkpoint holds."""
        return {"steps": self.steps, "shadow": self.shadow}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.steps = state["steps"]
        for name, value in state["shadow"].items():
            self.shadow[name].copy_(value)


def moving_tensors(module: nn.Module) -> Iterable[tuple[str, Tensor]]:
    """List the tensors that training changes: trainable parameters, and running statistics of norms."""
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            yield name, parameter
    for name, buffer in module.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            yield name, buffer
