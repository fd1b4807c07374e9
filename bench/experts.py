"""A hybrid-sharing layer against the paper's Algorithm 1 as its loops over labels and experts.

    python bench/experts.py

80 labels, 16 shared experts, 1 of each label's own, 512 to 64, a batch of 16; a training step (forward and backward).
Both have the same weights and give the same outputs; that is checked first. Three comparisons:

- both branches: the loops run the shared branch as one product (B · L, 512) x (512, 64) per expert;
- both branches, label by label: the loops run the shared branch label by label too, as they do the task branch;
- the labels' outputs: what a label's logit depends on. As printed, no shared branch does, so ours leaves it out.
"""

import argparse

import torch
from torch import Tensor, nn

from ratio import Ratio, as_table, of_seconds
from tagloom.models.heads.experts import HybridSharingLayer
from timing import best_seconds

LABELS, SHARED, WIDTH_IN, WIDTH_OUT, BATCH = 80, 16, 512, 64, 16


class LiteralLayer(nn.Module):
    """Algorithm 1 with an `nn.Linear` for every expert and gate."""

    def __init__(self, label_by_label: bool) -> None:
        super().__init__()
        self.label_by_label = label_by_label
        self.own = nn.ModuleList(nn.Linear(WIDTH_IN, WIDTH_OUT) for _ in range(LABELS))
        self.shared = nn.ModuleList(nn.Linear(WIDTH_IN, WIDTH_OUT) for _ in range(SHARED))
        self.gates = nn.ModuleList(nn.Linear(WIDTH_IN, 1 + SHARED) for _ in range(LABELS))
        self.shared_gate = nn.Linear(WIDTH_IN, LABELS + SHARED)

    def forward(self, task: Tensor, shared: Tensor) -> tuple[Tensor, Tensor]:
        """Run both branches, (B, L, d_i) to (B, L, d_o)."""
        of_shared: list[Tensor] = []
        of_task: list[list[Tensor]] = [[] for _ in range(LABELS)]
        for label, expert in enumerate(self.own):
            of_shared.append(self._run(expert, shared))
            of_task[label].append(expert(task[:, label]))
        for expert in self.shared:
            of_shared.append(self._run(expert, shared))
            for label in range(LABELS):
                of_task[label].append(expert(task[:, label]))
        weights = self._run(self.shared_gate, shared).softmax(-1)
        shared_out = (torch.stack(of_shared, dim=-2).relu() * weights.unsqueeze(-1)).sum(-2)
        task_out = []
        for label, gate in enumerate(self.gates):
            weights = gate(task[:, label]).softmax(-1)
            task_out.append((torch.stack(of_task[label], dim=-2).relu() * weights.unsqueeze(-1)).sum(-2))
        return torch.stack(task_out, dim=1), shared_out

    def _run(self, layer: nn.Module, tokens: Tensor) -> Tensor:
        if not self.label_by_label:
            return layer(tokens)
        return torch.stack([layer(tokens[:, label]) for label in range(LABELS)], dim=1)


def same_weights(ours: HybridSharingLayer, literal: LiteralLayer) -> None:
    """Copy our layer's weights into the literal one."""
    with torch.no_grad():
        for label in range(LABELS):
            literal.own[label].weight.copy_(ours.task_experts.weight[label])
            literal.own[label].bias.copy_(ours.task_experts.bias[label])
            literal.gates[label].weight.copy_(ours.task_gates.weight[label])
            literal.gates[label].bias.copy_(ours.task_gates.bias[label])
        for number, expert in enumerate(literal.shared):
            rows = slice(number * WIDTH_OUT, (number + 1) * WIDTH_OUT)
            expert.weight.copy_(ours.shared_experts.weight[rows])
            expert.bias.copy_(ours.shared_experts.bias[rows])
        literal.shared_gate.load_state_dict(ours.shared_gate.state_dict())


def run(brief: bool = False) -> list[Ratio]:
    """Compare training steps."""
    return compare(rounds=1 if brief else 7)


def compare(rounds: int) -> list[Ratio]:
    """Check that all give the same, and time them."""
    torch.manual_seed(0)
    tokens = torch.randn(BATCH, LABELS, WIDTH_IN, requires_grad=True)
    sizes = (LABELS, WIDTH_IN, WIDTH_OUT, SHARED, 1)
    ours, labels_only = HybridSharingLayer(*sizes), HybridSharingLayer(*sizes, shared_branch=False)
    literal, by_label = LiteralLayer(label_by_label=False), LiteralLayer(label_by_label=True)
    labels_only.load_state_dict(ours.state_dict(), strict=False)
    for rival in (literal, by_label):
        same_weights(ours, rival)
        with torch.no_grad():
            pairs = zip(ours(tokens, tokens), rival(tokens, tokens), strict=True)
            difference = max(float((mine - theirs).abs().max()) for mine, theirs in pairs)
        assert difference < 1e-5, difference
    with torch.no_grad():
        assert torch.equal(ours(tokens, tokens)[0], labels_only(tokens, tokens)[0])

    def step(layer: nn.Module) -> None:
        layer.zero_grad(set_to_none=True)
        tokens.grad = None
        sum(out.sum() for out in layer(tokens, tokens) if out is not None).backward()

    layers = {"both": ours, "labels": labels_only, "literal": literal, "label by label": by_label}
    best = best_seconds({name: lambda layer=layer: step(layer) for name, layer in layers.items()}, rounds=rounds)
    return [
        of_seconds(f"hybrid sharing, a step of {what}", "the paper's Algorithm 1 as loops", best[mine], best[rival])
        for what, mine, rival in (
            ("both branches", "both", "literal"),
            ("both branches, label by label", "both", "label by label"),
            ("the labels' outputs", "labels", "literal"),
        )
    ]


def main() -> None:
    """Compare and print the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=7)
    print(as_table(compare(arguments.parse_args().rounds)))


if __name__ == "__main__":
    main()
