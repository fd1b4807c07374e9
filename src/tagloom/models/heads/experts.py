"""Hybrid sharing: experts of each label and experts that all labels share, weighted by gates (HSQ).

One layer has two branches of the same shape, (B, L, d). Per label t and token x:

    task branch     o = Σ_k softmax(G_t · x)_k · ReLU(E_k · x)   over the label's n_t experts and the n_s shared ones
    shared branch   o = Σ_k softmax(G_s · x)_k · ReLU(E_k · x)   over all L · n_t + n_s experts

Literal loops would run L · (n_t + n_s) small products; here every branch is a few large ones.

That is the paper's Algorithm 1. As printed, each branch reads only itself, so no logit depends on a shared branch, and
leaving it out changes nothing. In PLE (Tang et al., 2020), where the layer comes from, the shared experts of the task
branch read the shared branch. `shared_input` chooses.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tagloom.checks import check_choice, check_number, check_whole
from tagloom.errors import RecipeError
from tagloom.labels.groups import Grouping
from tagloom.models.heads.options import MAX_LAYERS
from tagloom.models.heads.readout import PerClassReadout, Readout, choose_groups
from tagloom.wording import shown

DEFAULT_WIDTHS = (64, 16)
SHARED_INPUTS = ("task", "shared")


class LabelLinear(nn.Module):
    """A separate linear map for each label: y_t = W_t · x_t + b_t, all labels in one batched product."""

    def __init__(self, labels: int, width_in: int, width_out: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width_in)
        self.weight = nn.Parameter(torch.empty(labels, width_out, width_in).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(labels, width_out))

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (L, B, d_i) to (L, B, d_o)."""
        return torch.baddbmm(self.bias.unsqueeze(1), tokens, self.weight.transpose(1, 2))


class HybridSharingLayer(nn.Module):
    """n_t experts per label and n_s shared ones, mixed by a gate per label and by one shared gate.

    Args:
        labels: L.
        width_in: d_i.
        width_out: d_o of every expert.
        shared_experts: n_s; with 0 the labels share nothing.
        task_experts: n_t, per label.
        gate_hidden: Hidden width of the gates; None for linear ones.
        shared_branch: Whether the shared branch is computed. That of the last layer of a stack is never read.
        shared_input: Which branch the shared experts read for the task branch: "task", as printed, or "shared".
    """

    def __init__(
        self,
        labels: int,
        width_in: int,
        width_out: int,
        shared_experts: int,
        task_experts: int,
        gate_hidden: int | None = None,
        shared_branch: bool = True,
        shared_input: str = "task",
    ) -> None:
        super().__init__()
        check_choice("head option readout.shared_input", shared_input, SHARED_INPUTS)
        self.reads_shared = shared_input == "shared"
        self.width_out = width_out
        self.task_experts = LabelLinear(labels, width_in, task_experts * width_out)
        self.shared_experts = nn.Linear(width_in, shared_experts * width_out) if shared_experts else None
        mixed, every = task_experts + shared_experts, labels * task_experts + shared_experts
        # A gate over a single expert would always give 1.
        self.task_gates = (
            None if mixed == 1 else _perceptron(partial(LabelLinear, labels), width_in, gate_hidden, mixed)
        )
        self.shared_gate = _perceptron(nn.Linear, width_in, gate_hidden, every) if shared_branch else None
        _start_alike([self.task_experts, self.shared_experts], width_in, width_out)
        # Experts of other labels run a few at a time, so that their outputs take no more memory than the task branch.
        self.experts_at_once = max(mixed, width_in // width_out)

    def forward(self, task: Tensor, shared: Tensor) -> tuple[Tensor, Tensor | None]:
        """Run both branches. Shared experts run once for both if both read the same.

        Args:
            task: (B, L, d_i).
            shared: (B, L, d_i); in a first layer the same tensor.

        Returns:
            Task branch (B, L, d_o), and shared branch (B, L, d_o) or None if it is left out.
        """
        own = task.transpose(0, 1).contiguous()  # (L, B, d_i): label by label, for batched products
        other = own if shared is task else shared.transpose(0, 1)
        read = other if self.reads_shared else own
        from_shared = self._shared_outputs(read)
        mixed = self._mix(self._task_weights(own), self.task_experts(own).relu_(), from_shared)
        if self.shared_gate is None:
            return mixed.transpose(0, 1), None
        from_shared = from_shared if other is read else self._shared_outputs(other)
        weights = self.shared_gate(other).softmax(-1)
        return mixed.transpose(0, 1), self._mix_all(other, weights, from_shared).transpose(0, 1)

    def gate_weights(self, task: Tensor) -> Tensor:
        """Show how much of each expert a label uses: (B, L, d_i) to (B, L, n_t + n_s), its own experts first."""
        return self._task_weights(task.transpose(0, 1)).transpose(0, 1)

    def directions(self, task: Tensor, shared: Tensor, along: Tensor, along_shared: Tensor) -> tuple[Tensor, Tensor]:
        """Turn directions after this layer into those before it; the gates count as constants.

        Args:
            task: What the task branch read, (L, B, d_i).
            shared: What the shared branch read, (L, B, d_i).
            along: Direction after the task branch, (L, B, d_o).
            along_shared: Direction after the shared branch, (L, B, d_o); zeros where there is none.

        Returns:
            The directions before both branches, (L, B, d_i).
        """
        weights = self._task_weights(task)
        count = self.task_experts.weight.shape[1] // self.width_out
        own = _spread(weights[..., :count], along) * (self.task_experts(task) > 0)
        before, before_shared = own @ self.task_experts.weight, torch.zeros_like(task)
        layers = [(self.task_experts.weight.flatten(0, 1), self.task_experts.bias.flatten())]
        if self.shared_experts is not None:
            layers.append((self.shared_experts.weight, self.shared_experts.bias))
            pulled = _pull(shared if self.reads_shared else task, weights[..., count:], along, *layers[1])
            before, before_shared = (before, pulled) if self.reads_shared else (before + pulled, before_shared)
        if self.shared_gate is not None:
            at_once = self.experts_at_once  # as in `_mix_all`
            shares = torch.split(self.shared_gate(shared).softmax(-1), at_once, -1)
            every = [torch.split(torch.cat(parts), at_once * self.width_out) for parts in zip(*layers, strict=True)]
            for share, some, offset in zip(shares, *every, strict=True):
                before_shared = before_shared + _pull(shared, share, along_shared, some, offset)
        return before, before_shared

    def _task_weights(self, tokens: Tensor) -> Tensor:
        """Weight the experts for (L, B, d_i) tokens: gives (L, B, n_t + n_s)."""
        if self.task_gates is None:
            return torch.ones_like(tokens[..., :1])
        weights: Tensor = self.task_gates(tokens).softmax(-1)
        return weights

    def _shared_outputs(self, tokens: Tensor) -> Tensor | None:
        """Run the shared experts on (L, B, d_i): gives (L, B, n_s · d_o)."""
        return None if self.shared_experts is None else self.shared_experts(tokens).relu_()

    def _mix(self, weights: Tensor, own: Tensor, from_shared: Tensor | None) -> Tensor:
        """Sum own (L, B, n · d_o) and shared outputs with the gate's weights (L, B, n + n_s): gives (L, B, d_o)."""
        count = own.shape[-1] // self.width_out
        mixed = _weigh(weights[..., :count], own)
        return mixed if from_shared is None else mixed + _weigh(weights[..., count:], from_shared)

    def _mix_all(self, tokens: Tensor, weights: Tensor, from_shared: Tensor | None) -> Tensor:
        """Sum the outputs of every label's experts for every token (L, B, d_i), and the shared ones, by weight.

        Together they are L / (n_t + n_s) times as large as those of the task branch, so they are computed a few at a
        time, dropped, and computed again for the backward pass.
        """
        weight = self.task_experts.weight.flatten(0, 1)  # (L · n_t · d_o, d_i)
        bias = self.task_experts.bias.flatten()
        total = weight.shape[0] // self.width_out
        at_once = self.experts_at_once
        shares = zip(
            torch.split(weights[..., :total], at_once, -1),
            torch.split(weight, at_once * self.width_out),
            torch.split(bias, at_once * self.width_out),
            strict=True,
        )
        again = torch.is_grad_enabled() and not torch.compiler.is_compiling()
        mixed = torch.zeros(()) if from_shared is None else _weigh(weights[..., total:], from_shared)
        for share, some, offset in shares:
            if again:
                mixed = mixed + checkpoint(
                    _run_and_weigh, tokens, share, some, offset, use_reentrant=False, preserve_rng_state=False
                )
            else:
                mixed = mixed + _run_and_weigh(tokens, share, some, offset)
        return mixed


class HybridSharingReadout(Readout):
    """Layers of hybrid sharing, then a classifier per label.

    Every label has its own token, as in HSQ, or the token of its group if a decoder has fewer queries.

    Args:
        width: D of the tokens.
        classes: N, the L of the layers.
        shared_experts: n_s of every layer.
        task_experts: n_t of every layer.
        shared_input: Which branch shared experts read: "task", as printed, or "shared", as in PLE. With "task", or
            without shared experts, no logit depends on a shared branch, so it is not computed.
        layer_widths: d_o of each layer.
        gate_hidden: Hidden width of the gates; None for linear ones.
        classifier_hidden: Hidden width of the classifiers; None for linear ones.
        dropout: On the tokens that the first layer reads, and on what each layer passes on.
        groups: Number of tokens K; by default one per label.
        grouping: Which labels share a token: "random", "consecutive", or a list of lists of columns.
        grouping_seed: Decides the "random" groups.
    """

    group_of: Tensor

    def __init__(
        self,
        width: int,
        classes: int,
        shared_experts: int = 16,
        task_experts: int = 1,
        shared_input: str = "task",
        layer_widths: Sequence[int] = DEFAULT_WIDTHS,
        gate_hidden: int | None = None,
        classifier_hidden: int | None = None,
        dropout: float = 0.0,
        groups: int | None = None,
        grouping: Grouping = "random",
        grouping_seed: int = 0,
    ) -> None:
        check_whole("head option readout.shared_experts", shared_experts, 0)
        check_whole("head option readout.task_experts", task_experts, 1)
        for name, hidden in (("gate_hidden", gate_hidden), ("classifier_hidden", classifier_hidden)):
            if hidden is not None:
                check_whole(f"head option readout.{name}", hidden, 1)
        check_number("head option readout.dropout", dropout, 0.0, 1.0, below=True)
        _check_widths(layer_widths)
        if groups is None and isinstance(grouping, str):
            groups = classes
        parts = choose_groups(classes, groups, grouping, grouping_seed)
        super().__init__([sorted(part) for part in parts])
        self.shared_count = shared_experts
        group_of = torch.empty(classes, dtype=torch.long)
        for number, part in enumerate(parts):
            group_of[torch.tensor(part)] = number
        self.register_buffer("group_of", group_of)
        self.dropout = nn.Dropout(dropout)
        read_on = shared_input == "shared" and shared_experts > 0
        self.layers = nn.ModuleList(
            HybridSharingLayer(
                classes,
                before,
                after,
                shared_experts,
                task_experts,
                gate_hidden,
                shared_branch=read_on and number < len(layer_widths),
                shared_input=shared_input,
            )
            for number, (before, after) in enumerate(pairwise([width, *layer_widths]), start=1)
        )
        self.classifier = _perceptron(partial(LabelLinear, classes), layer_widths[-1], classifier_hidden, 1)

    def forward(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Map tokens (B, K, D) to logits (B, N)."""
        *_, (task, _) = self._branches(tokens)
        logits: Tensor = self.classifier(task.transpose(0, 1))
        return logits.squeeze(-1).transpose(0, 1)

    def directions(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Walk back through classifier and layers, with the gates as they are: (B, N, D)."""
        inputs = list(self._branches(tokens))
        task = _classifier_direction(self.classifier, inputs[-1][0].transpose(0, 1))
        shared = torch.zeros_like(task)
        layers = cast(list[HybridSharingLayer], list(self.layers))
        for layer, before in zip(reversed(layers), reversed(inputs[:-1]), strict=True):
            own, other = (branch.transpose(0, 1) for branch in before)
            task, shared = layer.directions(own, other, task, shared)
        return (task + shared).transpose(0, 1)  # both branches start as the same tokens

    def gate_weights(self, tokens: Tensor) -> list[Tensor]:
        """Show how much of each expert every label uses, per layer (B, N, n_t + n_s), its own experts first."""
        inputs = [task for task, _ in self._branches(tokens)]
        layers = cast(Iterable[HybridSharingLayer], self.layers)
        return [layer.gate_weights(task) for layer, task in zip(layers, inputs, strict=False)]

    def _branches(self, tokens: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Give both branches (B, N, d) before the first layer and after each one."""
        task = self.dropout(tokens if self.queries == len(self.group_of) else tokens.index_select(1, self.group_of))
        shared = task
        yield task, shared
        for layer in self.layers:
            task, passed_on = layer(task, shared)
            task = self.dropout(task)
            shared = task if passed_on is None else self.dropout(passed_on)  # what is not passed on is not read
            yield task, shared


class LinearLayersReadout(Readout):
    """Plain layers that all labels share, of the widths of hybrid sharing, then a classifier per label (HSQ-Linear).

    Args:
        width: D of the tokens.
        classes: N.
        layer_widths: Width of each layer.
    """

    def __init__(self, width: int, classes: int, layer_widths: Sequence[int] = DEFAULT_WIDTHS) -> None:
        _check_widths(layer_widths)
        super().__init__([[column] for column in range(classes)])
        layers: list[nn.Module] = []
        for before, after in pairwise([width, *layer_widths]):
            linear = nn.Linear(before, after)
            nn.init.kaiming_uniform_(linear.weight, nonlinearity="relu")
            nn.init.zeros_(linear.bias)
            layers += [linear, nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)
        self.classifier = PerClassReadout(layer_widths[-1], classes)

    def forward(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Map tokens (B, N, D) to logits (B, N)."""
        logits: Tensor = self.classifier(self.layers(tokens))
        return logits

    def directions(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Walk back through classifier and layers: (B, N, D)."""
        linears = [layer for layer in self.layers if isinstance(layer, nn.Linear)]
        outputs = [tokens]
        for linear in linears:
            outputs.append(linear(outputs[-1]).relu())
        direction = self.classifier.directions(outputs[-1]).expand(tokens.shape[0], -1, -1)
        for linear, after in zip(reversed(linears), reversed(outputs), strict=False):
            direction = (direction * (after > 0)) @ linear.weight
        return direction


def _check_widths(widths: Sequence[int]) -> None:
    if not isinstance(widths, list | tuple) or not 1 <= len(widths) <= MAX_LAYERS:
        raise RecipeError(
            f"head option readout.layer_widths is {shown(widths)}; it must be a list of 1 to {MAX_LAYERS} widths, for "
            "example [64, 16]."
        )
    for width in widths:
        check_whole("head option readout.layer_widths", width, 1)


def _perceptron(
    linear: Callable[[int, int], nn.Module], width_in: int, hidden: int | None, width_out: int
) -> nn.Module:
    """Make one linear layer, or two with a ReLU between them, by calling `linear`."""
    if hidden is None:
        return linear(width_in, width_out)
    return nn.Sequential(linear(width_in, hidden), nn.ReLU(inplace=True), linear(hidden, width_out))


@torch.no_grad()
def _start_alike(layers: Sequence[nn.Module | None], width_in: int, width_out: int) -> None:
    """Start every expert from a common map plus its own noise, equal in size, together within He's bound.

    Untrained gates average over experts, and independent experts cancel each other: the signal that reaches the next
    layer would shrink with their number.
    """
    bound = math.sqrt(6 / width_in) * math.sqrt(0.5)
    common: Tensor | None = None
    for layer in layers:
        if layer is None:
            continue
        experts = cast(Tensor, layer.weight).view(-1, width_out, width_in)
        if common is None:
            common = torch.empty_like(experts[0]).uniform_(-bound, bound)
        experts.uniform_(-bound, bound).add_(common)
        cast(Tensor, layer.bias).zero_()


def _run_and_weigh(tokens: Tensor, weights: Tensor, experts: Tensor, bias: Tensor) -> Tensor:
    """Run n experts (n · d_o, d_i) on tokens (L, B, d_i) and sum them with weights (L, B, n): gives (L, B, d_o)."""
    return _weigh(weights, F.linear(tokens, experts, bias).relu_())


def _spread(weights: Tensor, along: Tensor) -> Tensor:
    """Give each of n outputs its share (L, B, n) of a direction (L, B, d): gives (L, B, n · d)."""
    return (weights.unsqueeze(-1) * along.unsqueeze(-2)).flatten(-2)


def _pull(tokens: Tensor, weights: Tensor, along: Tensor, experts: Tensor, bias: Tensor) -> Tensor:
    """Give the direction before n experts (n · d_o, d_i) that read tokens (L, B, d_i), from that after them."""
    return (_spread(weights, along) * (F.linear(tokens, experts, bias) > 0)) @ experts


def _classifier_direction(classifier: nn.Module, inputs: Tensor) -> Tensor:
    """Say how the logit of each label grows with inputs (L, B, d) of its classifier, one layer or two."""
    if isinstance(classifier, LabelLinear):
        return classifier.weight.expand(-1, inputs.shape[1], -1)
    first, _, second = cast(nn.Sequential, classifier)
    direction: Tensor = (second.weight * (first(inputs) > 0)) @ first.weight
    return direction


def _weigh(weights: Tensor, outputs: Tensor) -> Tensor:
    """Sum n outputs (L, B, n · d) with weights (L, B, n): gives (L, B, d)."""
    return (weights.unsqueeze(-2) @ outputs.view(*weights.shape, -1)).squeeze(-2)
