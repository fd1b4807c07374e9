"""Readouts: from decoded tokens (B, K, D) to logits (B, N). Each says in `queries` how many tokens K it reads."""

import inspect
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from tagloom.errors import RecipeError, unknown_name
from tagloom.labels.groups import Grouping, group_classes, lay_out
from tagloom.models.heads.experts import DEFAULT_WIDTHS, HybridSharingReadout


class PerClassReadout(nn.Module):
    """logit_i = w_i · q_i + b_i: every class has its own token and its own weights (Query2Label; DETR's way)."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.queries = classes
        self.weight = nn.Parameter(torch.empty(classes, width).uniform_(-1, 1) / math.sqrt(width))
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (B, N, D) to logits (B, N)."""
        return (tokens * self.weight).sum(dim=-1) + self.bias


class GroupReadout(nn.Module):
    """logit_i = (W_k · q_k)_j + b_i: token k is read out into all the classes of its group (ML-Decoder, Eq. 3).

    One batched matmul, (R, B, D) x (R, D, g), and one gather into class order; a (B, N, D) tensor never exists. R is K
    where group sizes differ by at most one. A much larger group is spread over several rows of the same token, so that
    the padding stays below the number of classes however uneven the groups are. Padding is zero and gets no gradient.

    Attributes:
        group_of: (N,) the group of each class; saved with the head.
    """

    group_of: Tensor
    token_of_row: Tensor
    place_of_class: Tensor

    def __init__(
        self, width: int, classes: int, groups: int | None = None, grouping: Grouping = "random", grouping_seed: int = 0
    ) -> None:
        super().__init__()
        parts = group_classes(classes, groups, grouping, grouping_seed)
        self.queries = len(parts)
        size = -(-classes // len(parts))
        group_of = torch.empty(classes, dtype=torch.long)
        place_of_class = torch.empty(classes, dtype=torch.long)
        token_of_row: list[int] = []
        for number, part in enumerate(parts):
            for first in range(0, len(part), size):
                members = torch.tensor(part[first : first + size])
                group_of[members] = number
                place_of_class[members] = len(token_of_row) * size + torch.arange(len(members))
                token_of_row.append(number)
        self.register_buffer("group_of", group_of)
        self.register_buffer("place_of_class", place_of_class)
        self.register_buffer("token_of_row", torch.tensor(token_of_row))
        used = torch.zeros(len(token_of_row) * size)
        used[place_of_class] = 1 / math.sqrt(width)
        start = torch.empty(len(token_of_row), width, size).uniform_(-1, 1)
        self.weight = nn.Parameter(start * used.view(len(token_of_row), 1, size))
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (B, K, D) to logits (B, N)."""
        if len(self.token_of_row) > self.queries:
            tokens = tokens.index_select(1, self.token_of_row)
        rows = torch.bmm(tokens.transpose(0, 1), self.weight)  # (R, B, g)
        return rows.transpose(0, 1).flatten(1).index_select(1, self.place_of_class) + self.bias

    def groups(self) -> list[list[int]]:
        """List the classes of each group, in the order of their weights."""
        in_order = self.place_of_class.argsort()
        return [in_order[self.group_of[in_order] == number].tolist() for number in range(self.queries)]


class SharedReadout(nn.Module):
    """logit_i = w_j · q_k + b_j for class i, the j-th of group k, with the same w for all groups (W_k = W in Eq. 3).

    By default every class has a query of its own, and one w reads them all (ML-Decoder, section 2.3.3). It works for
    any queries, in any number.

    Attributes:
        places: (N,) where each class is read: group k, place j is k · g + j.
        group_size: g, classes per query.
    """

    places: Tensor

    def __init__(
        self, width: int, classes: int, groups: int | None = None, grouping: Grouping = "random", grouping_seed: int = 0
    ) -> None:
        super().__init__()
        groups = classes if groups is None and isinstance(grouping, str) else groups
        parts = group_classes(classes, groups, grouping, grouping_seed)
        self.queries = len(parts)
        self.group_size, places = lay_out(parts)
        self.register_buffer("places", torch.tensor(places))
        self.linear = nn.Linear(width, self.group_size)
        nn.init.zeros_(self.linear.bias)

    def forward(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Map tokens (B, K, D) to logits (B, N)."""
        return self.read_all(tokens).index_select(1, self.places)

    def read_all(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Map tokens (B, K, D) to logits of all places (B, K · g); words play no part."""
        logits: Tensor = self.linear(tokens).flatten(1)
        return logits


class WordReadout(nn.Module):
    """logit_i = (W_b · word_i) · q_k + b for class i of group k: weights come from the words (ML-Decoder, Eq. 6).

    So it reads any words. One bias for all stands beside the paper's equation, as in the other readouts.

    Attributes:
        places: (N,) where each class is read: group k, place j is k · g + j.
        group_size: g, classes per query.
    """

    places: Tensor

    def __init__(
        self,
        width: int,
        classes: int,
        word_size: int,
        groups: int | None = None,
        grouping: Grouping = "random",
        grouping_seed: int = 0,
    ) -> None:
        super().__init__()
        parts = group_classes(classes, groups, grouping, grouping_seed)
        self.queries = len(parts)
        self.group_size, places = lay_out(parts)
        self.register_buffer("places", torch.tensor(places))
        self.weight = nn.Parameter(torch.empty(width, word_size).uniform_(-1, 1) * math.sqrt(3 / (width * word_size)))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, tokens: Tensor, words: Tensor) -> Tensor:
        """Map tokens (B, K, D) and the words (K, g, d_w) of the classes to logits (B, N)."""
        return self.read_all(tokens, words).index_select(1, self.places)

    def read_all(self, tokens: Tensor, words: Tensor) -> Tensor:
        """Map tokens (B, K, D) and words (K, g, d_w) to logits of all places (B, K · g)."""
        weights = words @ self.weight.t()  # (K, g, D)
        rows = torch.bmm(tokens.transpose(0, 1), weights.transpose(1, 2))  # (K, B, g)
        return rows.transpose(0, 1).flatten(1) + self.bias


class LinearLayersReadout(nn.Module):
    """Plain layers that all labels share, of the widths of hybrid sharing, then a classifier per label (HSQ-Linear)."""

    def __init__(self, width: int, classes: int, layer_widths: Sequence[int] = DEFAULT_WIDTHS) -> None:
        super().__init__()
        self.queries = classes
        layers: list[nn.Module] = []
        for before, after in pairwise([width, *layer_widths]):
            linear = nn.Linear(before, after)
            nn.init.kaiming_uniform_(linear.weight, nonlinearity="relu")
            nn.init.zeros_(linear.bias)
            layers += [linear, nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)
        self.classifier = PerClassReadout(layer_widths[-1], classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (B, N, D) to logits (B, N)."""
        logits: Tensor = self.classifier(self.layers(tokens))
        return logits


READOUTS: dict[str, Callable[..., nn.Module]] = {
    "per-class": PerClassReadout,
    "group": GroupReadout,
    "shared": SharedReadout,
    "words": WordReadout,
    "hybrid-sharing": HybridSharingReadout,
    "linear-layers": LinearLayersReadout,
}


def create_readout(kind: str, width: int, classes: int, **options: Any) -> nn.Module:
    """Make a readout by name.

    Args:
        kind: A key of `READOUTS`.
        width: D.
        classes: N.
        options: The readout's own, for example `groups`; None counts as not given.
    """
    if kind not in READOUTS:
        raise RecipeError(unknown_name("readout", kind, READOUTS))
    given = {name: value for name, value in options.items() if value is not None}
    allowed = inspect.signature(READOUTS[kind]).parameters
    for name in given:
        if name not in allowed:
            owners = [other for other, build in READOUTS.items() if name in inspect.signature(build).parameters]
            raise RecipeError(f"readout '{kind}' has no option '{name}'; it belongs to readout {', '.join(owners)}.")
    return READOUTS[kind](width, classes, **given)
