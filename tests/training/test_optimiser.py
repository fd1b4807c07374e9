"""Who is decayed, how the learning rate moves, and what the average of the weights is."""

import pytest
import torch
from torch import nn

from tagloom.errors import RecipeError
from tagloom.recipe.parts import OptimiserSettings
from tagloom.training.optimiser import (
    WeightAverage,
    create_optimiser,
    learning_rate_at,
    momentum_at,
    set_learning_rate,
    set_momentum,
)


class Network(nn.Module):
    """A backbone with a norm, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
        self.head = nn.Linear(4, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(inputs))


def create(module: nn.Module, **changes: object) -> torch.optim.Optimizer:
    choices = {"name": "adamw", "learning_rate": 0.1, "weight_decay": 0.3, "momentum": 0.8, "backbone_factor": 0.5}
    return create_optimiser(module, OptimiserSettings(**(choices | changes)))  # type: ignore[arg-type]


def group_of(optimiser: torch.optim.Optimizer, parameter: nn.Parameter) -> dict[str, object]:
    (found,) = [group for group in optimiser.param_groups if any(entry is parameter for entry in group["params"])]
    return found


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd"])
def test_matrices_are_decayed_and_vectors_are_not(name):
    network = Network()
    optimiser = create(network, name=name)
    for parameter in network.parameters():
        assert group_of(optimiser, parameter)["weight_decay"] == (0.3 if parameter.ndim > 1 else 0.0)


def test_the_backbone_has_its_own_rate():
    network = Network()
    optimiser = create(network)
    set_learning_rate(optimiser, 0.2)
    for label, parameter in network.named_parameters():
        assert group_of(optimiser, parameter)["lr"] == pytest.approx(0.1 if label.startswith("backbone.") else 0.2)


def test_frozen_parameters_are_left_out():
    network = Network()
    network.backbone.requires_grad_(False)
    held = [parameter for group in create(network).param_groups for parameter in group["params"]]
    assert {id(parameter) for parameter in held} == {id(parameter) for parameter in network.head.parameters()}


def test_momentum_is_the_first_beta_of_adamw_and_nesterovs_of_sgd():
    assert create(Network()).param_groups[0]["betas"] == (0.8, 0.999)
    group = create(Network(), name="sgd").param_groups[0]
    assert (group["momentum"], group["nesterov"]) == (0.8, True)
    assert create(Network(), name="sgd", momentum=0.0).param_groups[0]["nesterov"] is False
    assert create(Network(), name="sgd", nesterov=False).param_groups[0]["nesterov"] is False


def test_adam_adds_the_decay_of_matrices_to_the_gradient_as_torchs_adam_does():
    torch.manual_seed(0)
    network = Network().train()
    rival = Network().train()
    rival.load_state_dict(network.state_dict())
    mine = create(network, name="adam", backbone_factor=1.0)
    vectors = [parameter for parameter in rival.parameters() if parameter.ndim == 1]
    matrices = [parameter for parameter in rival.parameters() if parameter.ndim > 1]
    theirs = torch.optim.Adam(
        [{"params": vectors, "weight_decay": 0.0}, {"params": matrices, "weight_decay": 0.3}],
        lr=0.1,
        betas=(0.8, 0.999),
    )
    uncoupled = Network().train()
    uncoupled.load_state_dict(network.state_dict())
    other = create(uncoupled, name="adamw", backbone_factor=1.0)
    for step in range(20):
        stepped(network, mine, step)
        stepped(rival, theirs, step)
        stepped(uncoupled, other, step)
    for ours, wanted in zip(network.parameters(), rival.parameters(), strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-6, atol=1e-7)
    assert not torch.allclose(network.head.weight, uncoupled.head.weight, atol=1e-3), "AdamW is another method"


@pytest.mark.parametrize(("name", "warmup", "steps"), [("adam", 0.2, 60), ("sgd", 0.1, 37), ("adamw", 0.3, 1000)])
def test_the_cycle_of_torch_is_torchs_over_a_whole_run_rate_and_momentum(name, warmup, steps):
    mine = create(Network(), name=name, momentum=0.9, backbone_factor=1.0, schedule="one-cycle-torch")
    rival = create(Network(), name=name, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(rival, 0.1, total_steps=steps, pct_start=warmup)
    for step in range(steps):
        set_learning_rate(mine, learning_rate_at(step, steps, peak=0.1, schedule="one-cycle-torch", warmup=warmup))
        set_momentum(mine, momentum_at(step, steps, momentum=0.9, schedule="one-cycle-torch", warmup=warmup))
        for ours, theirs in zip(mine.param_groups, rival.param_groups, strict=True):
            assert ours["lr"] == pytest.approx(theirs["lr"], rel=1e-9)
            key = "momentum" if name == "sgd" else "betas"
            assert ours[key] == pytest.approx(theirs[key], rel=1e-9)
        rival.step()
        if step < steps - 1:
            scheduler.step()


def test_other_schedules_leave_the_momentum_alone():
    assert {momentum_at(step, 9, momentum=0.7, schedule="one-cycle", warmup=0.3) for step in range(9)} == {0.7}


def test_a_momentum_that_cannot_swing_is_refused():
    with pytest.raises(RecipeError, match=r"one-cycle-torch is 0\.97"):
        OptimiserSettings(schedule="one-cycle-torch", momentum=0.97)


def torch_rates(make, steps: int) -> list[float]:
    """The rates that one of torch's schedulers gives, step by step."""
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.7)
    scheduler = make(optimiser)
    rates = []
    for _ in range(steps):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return rates


def ours(steps: int, schedule: str, warmup: float) -> list[float]:
    return [learning_rate_at(step, steps, peak=0.7, schedule=schedule, warmup=warmup) for step in range(steps)]


@pytest.mark.parametrize("steps", [10, 100, 999])
@pytest.mark.parametrize("warmup", [0.1, 0.3, 0.5])
def test_one_cycle_is_torchs_with_the_peak_one_step_later(steps, warmup):
    # Torch reaches its peak at step pct_start * steps - 1, ours at step warmup * steps. Both end at peak / 10,000:
    # torch counts from the first rate, peak / 25.
    theirs = torch_rates(
        lambda optimiser: torch.optim.lr_scheduler.OneCycleLR(
            optimiser, 0.7, total_steps=steps, pct_start=warmup + 1 / steps, final_div_factor=400
        ),
        steps,
    )
    assert ours(steps, "one-cycle", warmup) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("steps", [1, 10, 321])
def test_cosine_without_warmup_is_torchs(steps):
    theirs = torch_rates(lambda optimiser: torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps), steps)
    assert ours(steps, "cosine", 0.0) == pytest.approx(theirs, rel=1e-9, abs=1e-12)


def test_constant_stays_where_the_warmup_ends():
    rates = ours(100, "constant", 0.2)
    assert rates[:20] == sorted(rates[:20])
    assert rates[0] > 0
    assert set(rates[20:]) == {0.7}


@pytest.mark.parametrize("schedule", ["one-cycle", "one-cycle-torch", "cosine", "constant"])
@pytest.mark.parametrize("warmup", [0.0, 0.05, 0.3, 0.9])
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 50])
def test_rates_are_positive_never_above_the_peak_and_rise_only_while_warming_up(schedule, warmup, steps):
    rates = ours(steps, schedule, warmup)
    assert all(0 < rate <= 0.7 + 1e-12 for rate in rates)
    peak = rates.index(max(rates))
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert peak <= -(-warmup * steps // 1)


def stepped(network: Network, optimiser: torch.optim.Optimizer, seed: int) -> None:
    optimiser.zero_grad()
    network(torch.randn(5, 3, generator=torch.Generator().manual_seed(seed))).square().sum().backward()
    optimiser.step()


def test_the_average_is_the_one_a_plain_loop_computes():
    torch.manual_seed(0)
    network = Network().train()
    optimiser = create(network, name="sgd", learning_rate=0.01)
    average = WeightAverage(network, 0.7)
    wanted = {name: value.clone() for name, value in network.state_dict().items() if value.is_floating_point()}
    for step in range(1, 40):
        stepped(network, optimiser, step)
        average.update(network)
        decay = min(0.7, (1 + step) / (10 + step))
        for name, value in network.state_dict().items():
            if name in wanted:
                wanted[name] = decay * wanted[name] + (1 - decay) * value
    assert set(average.shadow) == set(wanted), "parameters and running statistics, all of them"
    for name, value in wanted.items():
        torch.testing.assert_close(average.shadow[name], value, rtol=1e-4, atol=1e-6)


def test_swapping_twice_changes_nothing():
    network = Network()
    optimiser = create(network)
    average = WeightAverage(network, 0.9)
    stepped(network, optimiser, 1)
    average.update(network)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    shadow = {name: value.clone() for name, value in average.shadow.items()}
    average.swap(network)
    for name, value in shadow.items():
        torch.testing.assert_close(network.state_dict()[name], value, rtol=0, atol=0)
    average.swap(network)
    for name, value in before.items():
        torch.testing.assert_close(network.state_dict()[name], value, rtol=0, atol=0)
    for name, value in shadow.items():
        torch.testing.assert_close(average.shadow[name], value, rtol=0, atol=0)


def test_an_average_goes_on_from_its_state():
    network = Network()
    optimiser = create(network)
    average = WeightAverage(network, 0.9)
    for seed in range(3):
        stepped(network, optimiser, seed)
        average.update(network)
    other = WeightAverage(Network(), 0.9)
    other.load_state_dict(average.state_dict())
    stepped(network, optimiser, 9)
    average.update(network)
    other.update(network)
    for name, value in average.shadow.items():
        torch.testing.assert_close(other.shadow[name], value, rtol=0, atol=0)


def test_lamb_moves_a_matrix_by_its_own_size_times_the_rate():
    network = nn.Linear(3, 4, bias=False)
    before = network.weight.detach().clone()
    optimiser = create(network, name="lamb", weight_decay=0.01, learning_rate=0.1)
    set_learning_rate(optimiser, 0.1)
    network(torch.ones(2, 3)).square().sum().backward()
    optimiser.step()
    assert float((network.weight.detach() - before).norm()) == pytest.approx(0.1 * float(before.norm()), rel=1e-3)


def test_both_betas_are_passed_on():
    assert create(Network(), second_momentum=0.9999).param_groups[0]["betas"] == (0.8, 0.9999)
