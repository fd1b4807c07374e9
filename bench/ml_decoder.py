"""ML-Decoder against a literal implementation: `nn.MultiheadAttention`, and the paper's loop over groups (appendix K).

    python bench/ml_decoder.py

9,600 classes, 100 queries, 2048-channel 7 x 7 maps, a batch of 16; inference and a training step (forward, asymmetric
loss, backward). Both have the same weights and give the same logits; that is checked first.
"""

import argparse
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ratio import Ratio, as_table, of_seconds
from tagloom.losses import asymmetric_loss
from tagloom.models.heads import create_head
from timing import best_seconds


class LiteralMLDecoder(nn.Module):
    """The paper's equations as one would first write them down."""

    def __init__(self, channels: int, groups: list[list[int]], width: int = 768, feed_forward: int = 2048) -> None:
        super().__init__()
        self.groups = groups
        self.order = torch.tensor(groups).flatten()
        self.classes = len(self.order)
        self.embed = nn.Linear(channels, width)
        self.queries = nn.Parameter(torch.randn(len(groups), width), requires_grad=False)
        self.attention = nn.MultiheadAttention(width, 8, dropout=0.0)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        self.feed_forward = nn.Sequential(
            nn.Linear(width, feed_forward), nn.ReLU(), nn.Dropout(0.1), nn.Linear(feed_forward, width)
        )
        self.dropouts = nn.ModuleList([nn.Dropout(0.1) for _ in range(3)])
        self.group_weights = nn.Parameter(torch.randn(len(groups), width, self.classes // len(groups)))
        self.bias = nn.Parameter(torch.zeros(self.classes))

    def forward(self, features: Tensor) -> Tensor:
        """Map features (B, C, H, W) to logits (B, N)."""
        memory = torch.relu(self.embed(features.flatten(2).permute(2, 0, 1)))
        target = self.queries[:, None].expand(-1, features.shape[0], -1)
        target = self.norms[0](target + self.dropouts[0](target))
        target = self.norms[1](target + self.dropouts[1](self.attention(target, memory, memory)[0]))
        target = self.norms[2](target + self.dropouts[2](self.feed_forward(target)))
        output = target.new_zeros(features.shape[0], *self.group_weights.shape[::2])
        for number in range(len(self.groups)):
            output[:, number] = target[number] @ self.group_weights[number]
        logits = torch.empty_like(output.flatten(1))
        logits[:, self.order] = output.flatten(1)
        return logits + self.bias


def same_weights(ours: nn.Module, literal: LiteralMLDecoder) -> None:
    """Copy our head's weights into the literal one."""
    layer = ours.decoder.layers[0]
    with torch.no_grad():
        literal.embed.load_state_dict(ours.embed.state_dict())
        literal.queries.copy_(ours.queries())
        projections = (layer.attention.query, layer.attention.key_value)
        literal.attention.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
        literal.attention.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
        literal.attention.out_proj.load_state_dict(layer.attention.out.state_dict())
        for theirs, own in zip(literal.norms, (layer.mixing.norm, layer.norm, layer.feed_forward.norm), strict=True):
            theirs.load_state_dict(own.state_dict())
        literal.feed_forward[0].load_state_dict(layer.feed_forward.expand.state_dict())
        literal.feed_forward[3].load_state_dict(layer.feed_forward.contract.state_dict())
        literal.group_weights.copy_(ours.readout.weight)
        literal.bias.copy_(ours.readout.bias)


def run(brief: bool = False) -> list[Ratio]:
    """Compare inference and training."""
    return compare(rounds=1 if brief else 7)


def compare(rounds: int) -> list[Ratio]:
    """Check that both give the same, and time them."""
    torch.manual_seed(0)
    features = torch.randn(16, 2048, 7, 7).to(memory_format=torch.channels_last)
    targets = (torch.rand(16, 9600) < 0.001).float()
    ours = create_head("ml-decoder", in_channels=2048, classes=9600, readout={"groups": 100})
    literal = LiteralMLDecoder(2048, ours.readout.groups())
    same_weights(ours, literal)
    with torch.no_grad():
        difference = float((ours.eval()(features) - literal.eval()(features)).abs().max())
    assert difference < 1e-4, difference

    def inference(head: nn.Module) -> None:
        with torch.no_grad():
            head(features)

    def step(head: nn.Module) -> None:
        head.zero_grad(set_to_none=True)
        asymmetric_loss(head(features), targets).backward()

    found = [report("inference", lambda: inference(ours), lambda: inference(literal), rounds)]
    ours.train()
    literal.train()
    return [*found, report("a training step", lambda: step(ours), lambda: step(literal), rounds)]


def report(what: str, ours: Callable[[], None], literal: Callable[[], None], rounds: int) -> Ratio:
    """Time one comparison."""
    best = best_seconds({"ours": ours, "literal": literal}, rounds=rounds)
    return of_seconds(f"ML-Decoder, 9,600 labels, {what}", "its paper's code, literally", best["ours"], best["literal"])


def main() -> None:
    """Compare and print the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=7)
    print(as_table(compare(arguments.parse_args().rounds)))


if __name__ == "__main__":
    main()
