"""Readouts: from decoded tokens (B, K, D) to logits (B, N)."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tagloom.checks import check_whole
from tagloom.errors import TagloomError
from tagloom.labels.groups import Grouping, group_classes, lay_out


class Readout(nn.Module):
    """What a query head calls.

    Attributes:
        queries: How many tokens K it reads.
        group_size: g, the most classes that share a token.
        slots: (N,) where each class stands if every token has g slots: the j-th class of token k is k · g + j.
        reads_any_words: Whether `read_all` reads any words, not only those of the classes.
        grouping: How other labels are divided among queries, "random" or "consecutive".
        grouping_seed: Decides the "random" grouping.
        shared_count: How many shared experts each layer has; None for a readout without experts.
    """

    reads_any_words: bool = False
    grouping: str = "random"
    grouping_seed: int = 0
    shared_count: int | None = None

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.queries = len(groups)
        self.group_size, self.slots = lay_out(groups)

    def forward(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Map tokens (B, K, D), and the words (K, g, d_w) of the classes if there are any, to logits (B, N)."""
        raise NotImplementedError

    def read_all(self, tokens: Tensor, words: Tensor) -> Tensor:
        """Map tokens (B, K, D) and any words (K, g, d_w) to logits of all slots (B, K · g)."""
        raise NotImplementedError

    def owners(self, tokens: Tensor) -> Tensor:
        """Give the token (N,) that each class reads."""
        return torch.tensor(self.slots, device=tokens.device) // self.group_size

    def directions(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Say how each logit grows with the token that its class reads, at tokens (B, K, D): gives (B or 1, N, D)."""
        raise NotImplementedError

    def all_directions(self, words: Tensor) -> Tensor:
        """Do the same for any words (K, g, d_w), for a readout that reads them: (1, K · g, D)."""
        raise NotImplementedError

    def gate_weights(self, tokens: Tensor) -> list[Tensor]:
        """Show how much of each expert every class uses, per layer (B, N, experts)."""
        raise TagloomError("this head has no experts: use a query head with readout 'hybrid-sharing'.")


def choose_groups(classes: int, groups: int | None, grouping: Grouping, grouping_seed: int) -> list[list[int]]:
    """Check the three options that decide which classes share a query, and group the classes."""
    if groups is not None:
        check_whole("head option readout.groups", groups, 1)
    check_whole("head option readout.grouping_seed", grouping_seed, 0)
    return group_classes(classes, groups, grouping, grouping_seed)


class PerClassReadout(Readout):
    """logit_i = w_i · q_i + b_i: every class has its own token and its own weights (Query2Label; as in DETR)."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__([[column] for column in range(classes)])
        self.weight = nn.Parameter(torch.empty(classes, width).uniform_(-1, 1) / math.sqrt(width))
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Map tokens (B, N, D) to logits (B, N)."""
        return (tokens * self.weight).sum(dim=-1) + self.bias

    def directions(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Give w_i."""
        return self.weight.unsqueeze(0)


class GroupReadout(Readout):
    """logit_i = (W_k · q_k)_j + b_i: token k is read out into all the classes of its group (ML-Decoder, Eq. 3).

    One batched matmul, (R, B, D) x (R, D, s), and one gather into class order; a (B, N, D) tensor never exists. R is K
    if group sizes differ by at most one. A much larger group is spread over several rows of the same token, so that the
    padding stays below the number of classes however uneven the groups are. Padding is zero and gets no gradient.

    Args:
        width: D.
        classes: N.
        groups: Number of groups K, and so of queries; by default min(100, N).
        grouping: Which classes share a query: "random", "consecutive", or a list of lists of columns.
        grouping_seed: Decides the "random" groups.

    Attributes:
        group_of: (N,) the group of each class; saved with the head.
        token_of_row: (R,) the token of each row of weights.
        place_of_class: (N,) where each class is found among the R · s outputs. Saved weights use this name.
    """

    group_of: Tensor
    token_of_row: Tensor
    place_of_class: Tensor

    def __init__(
        self, width: int, classes: int, groups: int | None = None, grouping: Grouping = "random", grouping_seed: int = 0
    ) -> None:
        parts = choose_groups(classes, groups, grouping, grouping_seed)
        super().__init__([sorted(part) for part in parts])
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

    def forward(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Map tokens (B, K, D) to logits (B, N)."""
        if len(self.token_of_row) > self.queries:
            tokens = tokens.index_select(1, self.token_of_row)
        rows = torch.bmm(tokens.transpose(0, 1), self.weight)  # (R, B, s)
        return rows.transpose(0, 1).flatten(1).index_select(1, self.place_of_class) + self.bias

    def directions(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Give the column of W_k that belongs to each class."""
        return self.weight.transpose(1, 2).flatten(0, 1).index_select(0, self.place_of_class).unsqueeze(0)

    def groups(self) -> list[list[int]]:
        """List the classes of each group, in the order of their weights."""
        in_order = self.place_of_class.argsort()
        return [in_order[self.group_of[in_order] == number].tolist() for number in range(self.queries)]


class SharedReadout(Readout):
    """logit_i = w_j · q_k + b_j for class i, the j-th of group k, with the same w for all groups (W_k = W in Eq. 3).

    By default every class has its own query, and one w reads them all (ML-Decoder, section 2.3.3). It works for any
    queries, in any number.

    Args:
        width: D.
        classes: N.
        groups: Number of groups K, and so of queries; by default N.
        grouping: Which classes share a query: "random", "consecutive", or a list of lists of columns.
        grouping_seed: Decides the "random" groups.

    Attributes:
        places: (N,) the slot of each class. Saved weights use this name.
    """

    reads_any_words = True
    places: Tensor

    def __init__(
        self, width: int, classes: int, groups: int | None = None, grouping: Grouping = "random", grouping_seed: int = 0
    ) -> None:
        groups = classes if groups is None and isinstance(grouping, str) else groups
        super().__init__(choose_groups(classes, groups, grouping, grouping_seed))
        self.grouping, self.grouping_seed = (grouping if isinstance(grouping, str) else "random"), grouping_seed
        self.register_buffer("places", torch.tensor(self.slots))
        self.linear = nn.Linear(width, self.group_size)
        nn.init.zeros_(self.linear.bias)

    def forward(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Map tokens (B, K, D) to logits (B, N)."""
        return self.read_all(tokens).index_select(1, self.places)

    def read_all(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Map tokens (B, K, D) to logits of all slots (B, K · g), whatever the words."""
        logits: Tensor = self.linear(tokens).flatten(1)
        return logits

    def directions(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Give w_j of each class."""
        return self.linear.weight.index_select(0, self.places % self.group_size).unsqueeze(0)

    def all_directions(self, words: Tensor) -> Tensor:
        """Give w_j, again for each query."""
        return self.linear.weight.unsqueeze(0).expand(words.shape[0], -1, -1).flatten(0, 1).unsqueeze(0)


class WordReadout(Readout):
    """logit_i = (W_b · word_i) · q_k + b for class i of group k: weights come from the words (ML-Decoder, Eq. 6).

    So it reads any words. To the paper's equation we add one bias for all, as the other readouts have.

    Args:
        width: D.
        classes: N.
        word_size: d_w.
        groups: Number of groups K, and so of queries; by default min(100, N).
        grouping: Which classes share a query: "random", "consecutive", or a list of lists of columns.
        grouping_seed: Decides the "random" groups.

    Attributes:
        places: (N,) the slot of each class. Saved weights use this name.
    """

    reads_any_words = True
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
        super().__init__(choose_groups(classes, groups, grouping, grouping_seed))
        self.grouping, self.grouping_seed = (grouping if isinstance(grouping, str) else "random"), grouping_seed
        self.register_buffer("places", torch.tensor(self.slots))
        self.weight = nn.Parameter(torch.empty(width, word_size).uniform_(-1, 1) * math.sqrt(3 / (width * word_size)))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Map tokens (B, K, D) and the words (K, g, d_w) of the classes to logits (B, N)."""
        if words is None:
            raise TagloomError("readout 'words' needs the words of the classes.")
        return self.read_all(tokens, words).index_select(1, self.places)

    def read_all(self, tokens: Tensor, words: Tensor) -> Tensor:
        """Map tokens (B, K, D) and words (K, g, d_w) to logits of all slots (B, K · g)."""
        weights = words @ self.weight.t()  # (K, g, D)
        rows = torch.bmm(tokens.transpose(0, 1), weights.transpose(1, 2))  # (K, B, g)
        return rows.transpose(0, 1).flatten(1) + self.bias

    def directions(self, tokens: Tensor, words: Tensor | None = None) -> Tensor:
        """Give W_b · word_i."""
        if words is None:
            raise TagloomError("readout 'words' needs the words of the classes.")
        return self.all_directions(words).index_select(1, self.places)

    def all_directions(self, words: Tensor) -> Tensor:
        """Give W_b · word_i of any words."""
        return (words @ self.weight.t()).flatten(0, 1).unsqueeze(0)
