"""TF against a plain reference, built from CPSD's description and torch's own parts, with the same weights."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tagloom.errors import RecipeError
from tagloom.models.heads import create_head

CLASSES, CHANNELS, WORD_SIZE = 5, 6, 7
WORDS = torch.randn(CLASSES, WORD_SIZE, generator=torch.Generator().manual_seed(3))
SMALL = {"width": 8, "decoder": {"head_width": 8, "feed_forward": 12}}


class PlainTF(nn.Module):
    """[words, features] through pre-norm layers with 4 heads of the whole width, read out by one linear map."""

    def __init__(self, channels: int, word_size: int, width: int, head_width: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.head_width = head_width
        self.features = nn.Linear(channels, width)
        self.words = nn.Linear(word_size, width)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": nn.LayerNorm(width),
                    "q": nn.Linear(width, 4 * head_width, bias=False),
                    "k": nn.Linear(width, 4 * head_width, bias=False),
                    "v": nn.Linear(width, 4 * head_width, bias=False),
                    "out": nn.Linear(4 * head_width, width),
                    "norm2": nn.LayerNorm(width),
                    "up": nn.Linear(width, hidden),
                    "down": nn.Linear(hidden, width),
                }
            )
            for _ in range(layers)
        )
        self.readout = nn.Linear(width, 1)

    def forward(self, features: Tensor, words: Tensor) -> Tensor:
        tokens = self.features(features.flatten(2).transpose(1, 2))
        labels = F.relu(self.words(words)).expand(len(tokens), -1, -1)
        x = torch.cat([tokens, labels], dim=1)
        for layer in self.layers:
            read = layer["norm1"](x)
            heads = []
            for number in range(4):
                part = slice(number * self.head_width, (number + 1) * self.head_width)
                q, k, v = (layer[name](read)[..., part] for name in "qkv")
                heads.append((q @ k.transpose(1, 2) / self.head_width**0.5).softmax(-1) @ v)
            x = x + layer["out"](torch.cat(heads, dim=-1))
            x = x + layer["down"](F.gelu(layer["up"](layer["norm2"](x))))
        return self.readout(x[:, -words.shape[0] :]).squeeze(-1)


def fill(head: nn.Module, plain: PlainTF) -> None:
    """Give our head the weights of the plain one."""
    state = {
        "embed": plain.features,
        "queries.linear": plain.words,
        "readout.linear": plain.readout,
    }
    tensors = {f"{name}.{leaf}": getattr(part, leaf) for name, part in state.items() for leaf in ("weight", "bias")}
    for number, layer in enumerate(plain.layers):
        attention, ffn = f"decoder.layers.{number}.self_attention", f"decoder.layers.{number}.feed_forward"
        tensors[f"{attention}.attention.query.weight"] = layer["q"].weight
        tensors[f"{attention}.attention.key_value.weight"] = torch.cat([layer["k"].weight, layer["v"].weight])
        named = {
            f"{attention}.attention.out": "out",
            f"{attention}.norm": "norm1",
            f"{ffn}.expand": "up",
            f"{ffn}.contract": "down",
            f"{ffn}.norm": "norm2",
        }
        for ours, theirs in named.items():
            for leaf in ("weight", "bias"):
                tensors[f"{ours}.{leaf}"] = getattr(layer[theirs], leaf)
    assert {name for name, _ in head.named_parameters()} == set(tensors), "no parameter is left out"
    head.load_state_dict(head.state_dict() | tensors)


def test_it_computes_what_the_released_code_does() -> None:
    torch.manual_seed(0)
    plain = PlainTF(CHANNELS, WORD_SIZE, 8, 8, 12, layers=3).double()
    for parameter in plain.parameters():
        nn.init.normal_(parameter, std=0.5)
    head = create_head(
        "tf", in_channels=CHANNELS, classes=CLASSES, queries="words", word_vectors=WORDS, **SMALL
    ).double()
    fill(head, plain)
    features = torch.randn(2, CHANNELS, 3, 4, dtype=torch.float64)
    with torch.no_grad():
        wanted = plain(features, WORDS.double())
        torch.testing.assert_close(head.eval()(features), wanted, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(head.float()(features.float()).double(), wanted, rtol=1e-5, atol=1e-5)


def test_it_has_the_released_models_59_million_parameters() -> None:
    with torch.device("meta"):
        words = torch.zeros(80, 300)
        ours = create_head("tf", in_channels=2048, classes=80, queries="words", word_vectors=words)
        plain = PlainTF(2048, 300, 1024, 1024, 1024, layers=3)
    counts = [sum(parameter.numel() for parameter in module.parameters()) for module in (ours, plain)]
    assert counts == [59_052_033, 59_052_033]


def test_dropout_is_that_of_the_released_code_on_residuals_and_in_feed_forward_layers_alone() -> None:
    head = create_head("tf", in_channels=CHANNELS, classes=CLASSES, **SMALL)
    layer = head.decoder.layers[0]
    assert (layer.self_attention.dropout.p, layer.feed_forward.dropout.p) == (0.1, 0.1)
    assert layer.self_attention.attention.dropout == 0.0


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        ({"activation": "swish"}, "decoder.activation"),
        ({"head_width": 0}, "decoder.head_width is 0"),
        ({"name": "cross-attention", "norm_first": True}, "it belongs to decoder tokens"),
    ],
)
def test_options_that_cannot_work_are_refused(decoder: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        create_head("tf", in_channels=CHANNELS, classes=CLASSES, width=8, decoder=decoder)


@torch.no_grad()
def test_evidence_follows_a_logit_back_through_a_pre_norm_layer() -> None:
    """What each position brings to a label's token, through the norm and the GELU as they are, written out by hand."""
    torch.manual_seed(0)
    options = {"width": 8, "decoder": {"head_width": 8, "feed_forward": 12, "encoder_layers": 1}}
    head = create_head("tf", in_channels=CHANNELS, classes=CLASSES, **options).double().eval()
    for parameter in head.parameters():
        nn.init.normal_(parameter, std=0.5)
    features = torch.randn(1, CHANNELS, 3, 4, dtype=torch.float64)
    layer = head.decoder.layers[0]
    attention, ffn = layer.self_attention.attention, layer.feed_forward
    memory = head.embed(features.flatten(2).transpose(1, 2))[0]
    before = torch.cat([head.queries.vectors, memory])
    read = layer.self_attention.norm(before)
    q, kv = attention.query(read), attention.key_value(read)
    after, brought = before[:CLASSES] + attention.out.bias, torch.zeros(CLASSES, 12, 8, dtype=torch.float64)
    for number in range(4):
        part = slice(8 * number, 8 * number + 8)
        weights = (q[:, part] @ kv[:, :32][:, part].T / 8**0.5).softmax(-1)[:CLASSES]
        values = kv[:, 32:][:, part] @ attention.out.weight[:, part].T  # (K + S, D)
        after = after + weights @ values
        brought += weights[:, CLASSES:, None] * values[CLASSES:]
    scale = (after.var(-1, unbiased=False, keepdim=True) + ffn.norm.eps).rsqrt()
    hidden = ffn.expand(ffn.norm(after))
    gate = F.gelu(hidden) / hidden
    normed = (brought - brought.mean(-1, keepdim=True)) * scale[:, None] * ffn.norm.weight
    passed = brought + (normed @ ffn.expand.weight.T * gate[:, None]) @ ffn.contract.weight.T
    wanted = (passed @ head.readout.linear.weight[0]).view(1, CLASSES, 3, 4)
    torch.testing.assert_close(head.evidence(features), wanted, rtol=1e-9, atol=1e-9)
