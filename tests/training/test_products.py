"""Products as convolutions are the same products: outputs, gradients, and every time the same bits."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import nn

from tagloom.models.heads import create_head
from tagloom.training import products
from tagloom.training.products import ConvolvedProducts, fast_products

BATCH, TOKENS, CHANNELS, WIDTH = 6, 49, 160, 128  # enough for a convolution to pay


@pytest.fixture
def convolved(monkeypatch) -> list[torch.Size]:
    """Note the shapes that were given to convolutions."""
    shapes: list[torch.Size] = []
    original = products._convolved

    def noted(tokens, *rest):
        shapes.append(tokens.shape)
        return original(tokens, *rest)

    monkeypatch.setattr(products, "_convolved", noted)
    return shapes


def tensors(dtype=torch.float32) -> list[torch.Tensor]:
    torch.manual_seed(0)
    shapes = ((BATCH, TOKENS, CHANNELS), (WIDTH, CHANNELS), (WIDTH,))
    return [torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
def test_outputs_and_gradients_are_those_of_exact_products(convolved, bias, transposed):
    ours, exact = tensors(), tensors(torch.float64)
    upstream = torch.randn(BATCH, TOKENS, WIDTH, dtype=torch.float64)
    found = []
    for inputs, context in ((ours, ConvolvedProducts()), (exact, torch.enable_grad())):
        read = inputs[0].transpose(1, 2).contiguous().transpose(1, 2) if transposed else inputs[0]
        with context:
            out = F.linear(read, inputs[1], *inputs[2:] if bias else ())
        out.backward(upstream.to(out.dtype))
        found.append([out, *(value.grad for value in inputs[: 2 + bias])])
    assert convolved == [(BATCH, TOKENS, CHANNELS)]
    assert found[0][0].is_contiguous()
    for mine, right in zip(*found, strict=True):
        torch.testing.assert_close(mine.double(), right, rtol=1e-5, atol=1e-4)


def test_a_head_learns_the_same_and_repeats_it_bit_for_bit(convolved):
    torch.manual_seed(0)
    head = create_head("ml-decoder-small", in_channels=CHANNELS, classes=20, feature_dropout=0.5).train()
    features = torch.rand(BATCH, CHANNELS, 7, 7)

    def gradients() -> list[torch.Tensor]:
        torch.manual_seed(1)  # of dropout
        head.zero_grad()
        head.classify(features).square().mean().backward()
        return [parameter.grad.clone() for parameter in head.parameters() if parameter.grad is not None]

    plain = gradients()
    with ConvolvedProducts():
        first, second = gradients(), gradients()
    assert len(convolved) >= 2 * 3
    for mine, again, right in zip(first, second, plain, strict=True):
        assert torch.equal(mine, again)
        torch.testing.assert_close(mine, right, rtol=1e-4, atol=1e-5 * float(right.abs().max()))


@pytest.mark.parametrize(
    "tokens",
    [
        torch.randn(BATCH * TOKENS, CHANNELS),
        torch.randn(1, BATCH * TOKENS, CHANNELS),
        torch.randn(BATCH * TOKENS, 1, CHANNELS),
        torch.randn(2, 3, CHANNELS),
        torch.randn(BATCH, TOKENS, CHANNELS, dtype=torch.float64),
    ],
    ids=["rows", "one image", "one token", "small", "float64"],
)
def test_what_would_not_gain_is_left_as_it_is(convolved, tokens):
    weight = torch.randn(WIDTH, CHANNELS, dtype=tokens.dtype)
    with ConvolvedProducts():
        found = F.linear(tokens, weight)
    assert not convolved
    assert torch.equal(found, F.linear(tokens, weight))


@pytest.mark.parametrize(("device", "held_back", "used"), [("cpu", True, 1), ("cpu", False, 0), ("cuda", True, 0)])
def test_only_processors_that_mkl_holds_back_are_helped(convolved, monkeypatch, device, held_back, used):
    monkeypatch.setattr(products, "mkl_holds_back", lambda: held_back)
    with fast_products(torch.device(device)), torch.no_grad():
        nn.Linear(CHANNELS, WIDTH)(torch.randn(BATCH, TOKENS, CHANNELS))
    assert len(convolved) == used
