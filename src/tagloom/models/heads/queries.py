"""Queries: the vectors that ask, one per class or one per group.

Each module is called with the words of its queries, (K, g, d_w) with g words per query, and gives (K, D). Learnable and
fixed queries ignore the words.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor, nn

from tagloom.errors import RecipeError

WordVectors = Tensor | Sequence[Sequence[float]]


class Queries(nn.Module):
    """What a query head calls.

    Attributes:
        any_number: Whether it makes a query from any words, so that there may be any number of queries.
    """

    any_number: bool = False

    def forward(self, words: Tensor | None = None) -> Tensor:
        """Give the queries (K, D)."""
        raise NotImplementedError


class LearnableQueries(Queries):
    """Queries that are trained; they start as N(0, 1)."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(count, width))

    def forward(self, words: Tensor | None = None) -> Tensor:
        """Give the queries (K, D)."""
        return self.vectors


class FixedQueries(Queries):
    """Queries drawn once from N(0, 1), never trained, saved with the head.

    The attention projects every query by a trained matrix, so training the queries too adds nothing (ML-Decoder,
    section 2.3.2).
    """

    vectors: Tensor

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.register_buffer("vectors", torch.randn(count, width))

    def forward(self, words: Tensor | None = None) -> Tensor:
        """Give the queries (K, D)."""
        return self.vectors


class WordQueries(Queries):
    """q = ReLU(W · word + b): one word per query, any words, in any number (ML-Decoder, section 2.3.3)."""

    any_number = True

    def __init__(self, word_size: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(word_size, width)

    def forward(self, words: Tensor | None = None) -> Tensor:
        """Map words (K, 1, d_w) to queries (K, D)."""
        queries: Tensor = self.linear(_given(words).squeeze(1)).relu()
        return queries


class JoinedWordQueries(Queries):
    """q_k = concat(W_a · word for every word of group k): g words per query (ML-Decoder, Eq. 5).

    W_a is (⌊D / g⌋, d_w) and has no bias, so that the zeros of a slot without a word stay zeros. If g does not divide
    D, zeros fill the end.
    """

    any_number = True

    def __init__(self, word_size: int, group_size: int, width: int) -> None:
        super().__init__()
        if group_size > width:
            raise RecipeError(
                f"{group_size} words cannot share a query of width {width}: increase readout.groups or width."
            )
        self.linear = nn.Linear(word_size, width // group_size, bias=False)
        self.unused = width - group_size * (width // group_size)

    def forward(self, words: Tensor | None = None) -> Tensor:
        """Map words (K, g, d_w) to queries (K, D)."""
        return F.pad(self.linear(_given(words)).flatten(1), (0, self.unused))


def word_queries(width: int, words: Tensor) -> Queries:
    """Make queries of words (K, g, d_w): `WordQueries` for one word per query, `JoinedWordQueries` for several."""
    _, group_size, word_size = words.shape
    return WordQueries(word_size, width) if group_size == 1 else JoinedWordQueries(word_size, group_size, width)


def _given(words: Tensor | None) -> Tensor:
    if words is None:
        raise RecipeError("word queries need the words that they are made from.")
    return words


def word_tensor(word_vectors: WordVectors | None, classes: int) -> Tensor:
    """Check word vectors, one row for each of the classes: gives (N, d_w)."""
    if word_vectors is None:
        raise RecipeError(
            "a head with words needs word_vectors: a tensor or a list of lists, one row per class. A recipe gets them "
            "from words.source."
        )
    try:
        words = torch.as_tensor(word_vectors, dtype=torch.float32).detach().clone()
    except (TypeError, ValueError) as error:
        raise RecipeError(f"word_vectors are not a table of numbers ({error}).") from error
    if words.ndim != 2 or words.shape[1] == 0:
        raise RecipeError(f"word_vectors have shape {tuple(words.shape)}; wanted: {classes} rows of equal length.")
    if len(words) != classes:
        raise RecipeError(
            f"word_vectors have {len(words)} rows for {classes} classes. Give one row per class, in their order."
        )
    if not words.is_meta and not words.isfinite().all():
        raise RecipeError("word_vectors contain values that are not finite.")
    return words
