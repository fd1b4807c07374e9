"""In eval mode the query side is computed once per weights, and never once too seldom."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from tagloom.models.heads import create_head
from tagloom.models.heads.memo import Memo

OPTIONS = {"width": 16, "decoder": {"feed_forward": 16, "attention_heads": 2}}
IMAGES = torch.randn(2, 4, 3, 3, generator=torch.Generator().manual_seed(0))
WORDS = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
HEADS = {
    "ml-decoder": {},
    "transformer-decoder": {},
    "query2label": {},
    "tf": {"queries": "words", "word_vectors": WORDS},
}
every_kind = pytest.mark.parametrize("name", HEADS)


def make(name: str) -> nn.Module:
    torch.manual_seed(0)
    return create_head(name, in_channels=4, classes=5, **OPTIONS, **HEADS[name]).eval()


def fresh(head: nn.Module) -> Tensor:
    """Compute without anything kept: while gradients are recorded nothing is."""
    with torch.enable_grad():
        return head(IMAGES).detach()


def query_side(head: nn.Module) -> Tensor:
    """Give a tensor that only the query side reads."""
    first = head.decoder.layers[0]
    return head.queries.linear.weight if hasattr(head.queries, "linear") else first.attention.query.weight


@every_kind
def test_the_query_side_runs_once_for_many_batches(name: str) -> None:
    head = make(name)
    module = head.queries.linear if name == "tf" else head.decoder.layers[0].attention.query
    calls: list[int] = []
    module.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        outputs = [head(IMAGES) for _ in range(3)]
    assert len(calls) == 1
    assert torch.equal(outputs[0], outputs[2])
    torch.testing.assert_close(outputs[0], fresh(head))


@every_kind
def test_an_edit_in_place_is_seen(name: str) -> None:
    head = make(name)
    with torch.no_grad():
        before = head(IMAGES)
        query_side(head).mul_(3)
        torch.testing.assert_close(head(IMAGES), fresh(head))
        assert not torch.allclose(head(IMAGES), before)


@every_kind
@pytest.mark.parametrize("fused", [False, True])
def test_an_optimiser_step_in_eval_mode_is_seen(name: str, fused: bool) -> None:
    # Fused optimisers write past the version count, but no step comes without a forward pass that records gradients.
    head = make(name)
    optimiser = torch.optim.AdamW(head.parameters(), lr=0.1, fused=fused)
    with torch.no_grad():
        head(IMAGES)
    head(IMAGES).square().sum().backward()
    optimiser.step()
    with torch.no_grad():
        torch.testing.assert_close(head(IMAGES), fresh(head))


@every_kind
def test_loaded_weights_are_seen(name: str) -> None:
    head, other = make(name), make(name)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.3)
        head(IMAGES)
        head.load_state_dict(other.state_dict())
        assert torch.equal(head(IMAGES), other(IMAGES))
        halved = {key: value * 0.5 if value.is_floating_point() else value for key, value in head.state_dict().items()}
        head.load_state_dict(halved, assign=True)
        torch.testing.assert_close(head(IMAGES), fresh(head))


@every_kind
def test_moving_and_casting_are_seen(name: str) -> None:
    head = make(name)
    with torch.no_grad():
        before = head(IMAGES)
        assert head.double()(IMAGES.double()).dtype == torch.float64
        torch.testing.assert_close(head.float()(IMAGES), before)
        for _ in range(3):  # assigned twice between two looks, a freed address may come back
            head.apply(_double_weights)
            head.apply(_double_weights)
            torch.testing.assert_close(head(IMAGES), fresh(head))


def _double_weights(module: nn.Module) -> None:
    for parameter in module.parameters(recurse=False):
        parameter.data = parameter.data * 1.1


@every_kind
def test_writing_through_data_is_seen_after_a_change_of_mode(name: str) -> None:
    head = make(name)
    with torch.no_grad():
        head(IMAGES)
        query_side(head).data.mul_(3)
        torch.testing.assert_close(head.eval()(IMAGES), fresh(head))


@every_kind
def test_gradients_flow_after_evaluation(name: str) -> None:
    head = make(name)
    with torch.no_grad():
        head(IMAGES)
    head(IMAGES).square().sum().backward()
    assert query_side(head).grad.abs().max() > 0


@every_kind
def test_inference_mode_and_no_grad_may_take_turns(name: str) -> None:
    head = make(name)
    with torch.inference_mode():
        first = head(IMAGES)
    with torch.no_grad():
        second = head(IMAGES)
    assert torch.equal(first, second)
    torch.testing.assert_close(fresh(head), second)
    with torch.inference_mode():
        query_side(head).mul_(3)
        torch.testing.assert_close(head(IMAGES), fresh(head))


@every_kind
def test_copies_and_pickles_begin_with_nothing_kept(name: str) -> None:
    head = make(name)
    with torch.no_grad():
        before = head(IMAGES)
        for other in (copy.deepcopy(head), pickle.loads(pickle.dumps(head))):  # noqa: S301 - our own bytes
            query_side(other).mul_(3)
            assert not torch.allclose(other(IMAGES), before)
        assert torch.equal(head(IMAGES), before)
    assert not any("_asked" in key or "_tokens" in key for key in head.state_dict())


def test_functional_transforms_do_without() -> None:
    head = make("ml-decoder")
    stacked = {name: torch.stack([value, value * 1.5]) for name, value in head.named_parameters()}

    def run(parameters: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(head, parameters, (IMAGES,))

    with torch.no_grad():
        expected = head(IMAGES)
        both = torch.vmap(run)(stacked)
        torch.testing.assert_close(both[0], expected)
        assert not torch.allclose(both[1], expected)
        torch.testing.assert_close(head(IMAGES), expected)


@every_kind
def test_costs_can_be_counted_on_shapes_alone(name: str) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    counts = []
    for device in ("meta", "cpu"):
        head = make(name).to(device)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            head(IMAGES.to(device))
        counts.append(counter.get_total_flops())
    assert counts[0] >= counts[1] > 0  # the fused kernel of CPUs is not counted


def test_autocast_is_told_apart() -> None:
    weight, memo = torch.ones(2, 2), Memo()
    with torch.no_grad():
        memo([weight], lambda: (weight * 1,))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert memo([weight], lambda: (weight.bfloat16(),))[0].dtype == torch.bfloat16
        assert memo([weight], lambda: (weight * 1,))[0].dtype == torch.float32
