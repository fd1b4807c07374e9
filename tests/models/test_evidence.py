"""Evidence is the part of a logit that came from each position: compared with gradients of a literal definition."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tests.models.test_heads import CLASSES, SMALL, maps_for, small_head
from torch import Tensor, nn

from tagloom.errors import TagloomError
from tagloom.models.heads import Head
from tagloom.models.heads.query_head import QueryHead
from tagloom.models.heads.transformer import Attention

# Where queries read each other, their evidence leaves that way out, and gradients do not.
ALONE = [name for name in SMALL if isinstance(head := small_head(name), QueryHead) and head.decoder.scores_apart]
POOLED = [name for name in SMALL if not isinstance(small_head(name), QueryHead)]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make everything constant that evidence takes as it is: softmaxes and the scales of norms."""
    softmax = Tensor.softmax
    monkeypatch.setattr(Tensor, "softmax", lambda self, *args, **more: softmax(self, *args, **more).detach())

    def norm(self: nn.LayerNorm, inputs: Tensor) -> Tensor:
        centred = inputs - inputs.mean(dim=-1, keepdim=True)
        scale = (inputs.var(dim=-1, keepdim=True, unbiased=False) + self.eps).rsqrt().detach()
        return centred * scale * self.weight + self.bias

    monkeypatch.setattr(nn.LayerNorm, "forward", norm)


def gradients(head: Head, maps: list[Tensor], monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """Scale what queries gather from each position by 1 + θ, and differentiate each logit by θ at 0: (B, N, H, W)."""
    batch, _, height, width = maps[0].shape
    theta = torch.zeros(batch, height * width, dtype=maps[0].dtype, requires_grad=True)
    encoders = {module.self_attention.attention for module in getattr(head.decoder, "encoder", ())}

    def forward(self: Attention, projected, memory, position=None, trace=None, first=0) -> Tensor:
        keys, values = self.key_value(memory).chunk(2, dim=-1)
        if position is not None:
            keys = keys + F.linear(position, self.key_value.weight[: self.inner])
        keys, values = self._split(keys), self._split(values)
        if self not in encoders:
            times = F.pad(1 + theta, (0, memory.shape[1] - theta.shape[1]), value=1.0)
            values = values * times[:, None, :, None]
        queries = projected.expand(len(memory), -1, -1, -1)
        weights = (queries @ keys.transpose(-1, -2) / keys.shape[-1] ** 0.5).softmax(dim=-1)
        return self.out((weights @ values).transpose(1, 2).flatten(2))

    monkeypatch.setattr(Attention, "forward", forward)
    logits = head(*maps)
    rows = [torch.autograd.grad(logits[:, column].sum(), theta, retain_graph=True)[0] for column in range(CLASSES)]
    return torch.stack(rows, dim=1).unflatten(-1, (height, width))


@pytest.mark.parametrize("name", ALONE)
def test_evidence_of_a_query_head_is_what_each_position_brought(name, held, monkeypatch) -> None:
    head = small_head(name).double()
    maps = [value.double() for value in maps_for(head, 2)]
    evidence = head.evidence(*maps)
    expected = gradients(head, maps, monkeypatch)
    assert expected.abs().max() > 1e-4
    torch.testing.assert_close(evidence, expected, rtol=1e-7, atol=1e-11)


@pytest.mark.parametrize("name", ["transformer-decoder", "tf", "query"])
def test_evidence_of_a_head_whose_queries_read_each_other_sees_the_image(name: str) -> None:
    head = small_head(name)
    maps = maps_for(head, 2)
    evidence = head.evidence(*maps)
    assert evidence.shape == (2, CLASSES, 3, 4)
    assert evidence[0].std(dim=(1, 2)).min() > 0
    assert not torch.allclose(evidence[0], evidence[1])


def test_labels_of_one_group_differ_in_their_evidence() -> None:
    head = small_head("ml-decoder")
    first, second = torch.nonzero(head.readout.group_of == head.readout.group_of[0]).flatten()[:2].tolist()
    evidence = head.evidence(*maps_for(head, 1))[0]
    assert not torch.allclose(evidence[first], evidence[second], atol=1e-3)


@pytest.mark.parametrize("name", POOLED)
def test_evidence_of_a_pooled_head_differs_from_the_logit_by_what_is_no_position(name: str) -> None:
    head = small_head(name)
    maps = maps_for(head, 3)
    evidence, logits = head.evidence(*maps), head(*maps)
    assert evidence.shape == (3, CLASSES, 3, 4)
    if name == "gap":
        torch.testing.assert_close(evidence.mean(dim=(2, 3)) + head.linear.bias, logits, rtol=1e-4, atol=1e-5)
    # One position of the last map changes: for linear heads the logit changes by exactly its evidence.
    elsewhere = [maps[0].clone(), *maps[1:]]
    elsewhere[0][:, :, 0, 0] += 1.0
    change = (head.evidence(*elsewhere) - evidence)[:, :, 0, 0] / 12
    if name in ("gap", "layover, side by side"):
        torch.testing.assert_close(head(*elsewhere) - logits, change, rtol=1e-3, atol=1e-4)
    else:
        assert change.abs().max() > 1e-3


def test_any_words_have_their_evidence() -> None:
    head = small_head("ml-decoder-words-grouped")
    maps = maps_for(head, 2)
    words = head.class_words()
    everything = head.evidence(*maps, words=words.vectors)
    torch.testing.assert_close(everything[:, words.slots], head.evidence(*maps))


def test_a_head_of_ones_own_without_evidence_says_which_methods_work() -> None:
    with pytest.raises(TagloomError, match=r"eigen-cam.*grad-cam"):
        Head().evidence(torch.zeros(1, 2, 3, 3))
    assert not Head().shows_evidence
    assert small_head("gap").shows_evidence
