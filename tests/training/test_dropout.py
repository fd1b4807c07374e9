"""Quick dropout is dropout: the same shares, the same mean, the same gradients, repeated by the same seed."""

import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import nn

from tagloom.training.dropout import SMALLEST, QuickDropout, kept


@pytest.mark.parametrize("p", [0.003, 0.1, 0.5, 0.97])
def test_each_value_is_dropped_with_the_probability_asked_for(p):
    torch.manual_seed(0)
    dropped = (kept((4000, 400), p) == 0).double()
    for part in (dropped, *(dropped.flatten()[lane::4] for lane in range(4))):  # four values share a random number
        error = math.sqrt(p * (1 - p) / part.numel())
        assert abs(float(part.mean()) - p) < 4.5 * error + 1 / 65536


def test_values_that_share_a_random_number_are_dropped_independently():
    torch.manual_seed(0)
    lanes = (kept((4_000_000,), 0.5) == 0).double().view(-1, 4)
    correlation = torch.corrcoef(lanes.T) - torch.eye(4, dtype=torch.float64)
    assert float(correlation.abs().max()) < 0.005


@pytest.mark.parametrize("shape", [(SMALLEST,), (3, 7, 1001), (129, 130)])
def test_what_is_kept_is_scaled_so_that_the_mean_stays(shape):
    torch.manual_seed(0)
    values = torch.rand(shape) + 1
    with QuickDropout():
        found = nn.Dropout(0.25).train()(values)
    assert found.shape == values.shape
    torch.testing.assert_close(found[found != 0], (values / 0.75)[found != 0])
    assert abs(float(found.mean() / values.mean()) - 1) < 0.05


def test_gradients_pass_where_values_pass():
    values = torch.rand(200, 200, requires_grad=True)
    with QuickDropout():
        found = F.dropout(values, 0.4)
    found.sum().backward()
    torch.testing.assert_close(values.grad, (found / values).detach())


def test_the_same_seed_drops_the_same_values_and_another_does_not():
    layer, values = nn.Dropout(0.5).train(), torch.ones(128, 128)
    with QuickDropout():
        found = [layer(values) for seed in (1, 1, 2) if torch.manual_seed(seed)]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (torch.ones(200, 200), {"p": 0.5, "training": False}),
        (torch.ones(200, 200), {"p": 0.0}),
        (torch.ones(200, 200), {"p": 1.0}),
        (torch.ones(4, 4), {"p": 0.5}),
        (torch.ones(200, 200, dtype=torch.float64), {"p": 0.5}),
    ],
)
def test_everything_else_is_left_to_torch(values, options):
    torch.manual_seed(3)
    usual = F.dropout(values, **options)
    torch.manual_seed(3)
    with QuickDropout():
        assert torch.equal(F.dropout(values, **options), usual)
