"""Queries: the vectors that ask, one per class or one per group.

Each module is called with the words of its queries, (K, g, d_w) with g words per query, and gives (K, D). Learnable and
fixed queries have no words and ignore them.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor, nn

from tagloom.errors import RecipeError, unknown_name

QUERY_NAMES = ("learnable", "fixed", "words")
WordVectors = Tensor | Sequence[Sequence[float]]


class LearnableQueries(nn.Module):
    """Queries that are trained; they start as N(0, 1)."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(count, width))

    def forward(self, words: Tensor | None = None) -> Tensor:
        """Give the queries (K, D)."""
        return self.vectors


class FixedQueries(nn.Module):
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


class WordQueries(nn.Module):
    """q = ReLU(W · word + b): one word per query, any words, in any number (ML-Decoder, section 2.3.3)."""

    def __init__(self, word_size: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(word_size, width)

    def forward(self, words: Tensor) -> Tensor:
        """Map words (K, 1, d_w) to queries (K, D)."""
        queries: Tensor = self.linear(words.squeeze(1)).relu()
        return queries


class JoinedWordQueries(nn.Module):
    """q_k = concat(W_a · word for every word of group k): g words per query (ML-Decoder, Eq. 5).

    W_a is (⌊D / g⌋, d_w) and has no bias, so that the zeros in the place of a word that a group lacks stay zeros, as do
    the values at the end where g does not divide D.
    """

    def __init__(self, word_size: int, group_size: int, width: int) -> None:
        super().__init__()
        if group_size > width:
            raise RecipeError(
                f"{group_size} words cannot share a query of width {width}: set more groups, or a greater width."
            )
        self.linear = nn.Linear(word_size, width // group_size, bias=False)
        self.unused = width - group_size * (width // group_size)

    def forward(self, words: Tensor) -> Tensor:
        """Map words (K, g, d_w) to queries (K, D)."""
        return F.pad(self.linear(words).flatten(1), (0, self.unused))


def create_queries(kind: str, count: int, width: int, words: Tensor | None = None) -> nn.Module:
    """Make queries by name.

    Args:
        kind: One of `QUERY_NAMES`.
        count: K, what the readout asks for.
        width: D.
        words: (K, g, d_w), what `WordQueries` or `JoinedWordQueries` will be called with; for kind "words".
    """
    if kind not in QUERY_NAMES:
        raise RecipeError(unknown_name("kind of queries", kind, QUERY_NAMES))
    if kind == "learnable":
        return LearnableQueries(count, width)
    if kind == "fixed":
        return FixedQueries(count, width)
    if words is None:
        raise RecipeError("queries 'words' need the words that they are made of.")
    _, group_size, word_size = words.shape
    return WordQueries(word_size, width) if group_size == 1 else JoinedWordQueries(word_size, group_size, width)


def word_tensor(word_vectors: WordVectors | None, classes: int) -> Tensor:
    """Check word vectors, one row for each of the classes: gives (N, d_w)."""
    if word_vectors is None:
        raise RecipeError(
            "a head of words needs word_vectors: a tensor or a list of lists, one row per class. A recipe gets them by "
            "naming words.source."
        )
    try:
        words = torch.as_tensor(word_vectors, dtype=torch.float32).detach().clone()
    except (TypeError, ValueError) as error:
        raise RecipeError(f"word_vectors are no table of numbers ({error}).") from error
    if words.ndim != 2 or words.shape[1] == 0:
        raise RecipeError(f"word_vectors have shape {tuple(words.shape)}; wanted are {classes} rows of one length.")
    if len(words) != classes:
        raise RecipeError(
            f"word_vectors have {len(words)} rows for {classes} classes. Give one row per class, in their order."
        )
    if not words.is_meta and not words.isfinite().all():
        raise RecipeError("word_vectors hold values that are not finite numbers.")
    return words
