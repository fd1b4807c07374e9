"""Queries: the vectors that ask, one per class or one per group. Each module takes nothing and gives (K, D)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tagloom.errors import RecipeError, unknown_name

QUERY_NAMES = ("learnable", "fixed", "words")
WordVectors = Tensor | Sequence[Sequence[float]]


class LearnableQueries(nn.Module):
    """Queries that are trained; they start as N(0, 1)."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(count, width))

    def forward(self) -> Tensor:
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

    def forward(self) -> Tensor:
        """Give the queries (K, D)."""
        return self.vectors


class WordQueries(nn.Module):
    """q = ReLU(W · word + b), from fixed word vectors (K, d_w) (ML-Decoder, section 2.3.3)."""

    words: Tensor

    def __init__(self, words: Tensor, width: int) -> None:
        super().__init__()
        self.register_buffer("words", words)
        self.linear = nn.Linear(words.shape[1], width)

    def forward(self) -> Tensor:
        """Give the queries (K, D)."""
        queries: Tensor = self.linear(self.words).relu()
        return queries


def create_queries(kind: str, count: int, width: int, word_vectors: WordVectors | None = None) -> nn.Module:
    """Make queries by name.

    Args:
        kind: One of `QUERY_NAMES`.
        count: K, what the readout asks for.
        width: D.
        word_vectors: (K, d_w), row k for query k; for kind "words", and only for it.
    """
    if kind not in QUERY_NAMES:
        raise RecipeError(unknown_name("kind of queries", kind, QUERY_NAMES))
    if kind == "words":
        return WordQueries(_word_tensor(word_vectors, count), width)
    if word_vectors is not None:
        raise RecipeError(f"word_vectors are given, but queries '{kind}' do not use them: set queries: words.")
    return LearnableQueries(count, width) if kind == "learnable" else FixedQueries(count, width)


def _word_tensor(word_vectors: WordVectors | None, count: int) -> Tensor:
    if word_vectors is None:
        raise RecipeError("queries 'words' need word_vectors: a tensor or a list of lists, one row per query.")
    try:
        words = torch.as_tensor(word_vectors, dtype=torch.float32).detach().clone()
    except (TypeError, ValueError) as error:
        raise RecipeError(f"word_vectors are no table of numbers ({error}).") from error
    if words.ndim != 2 or words.shape[1] == 0:
        raise RecipeError(f"word_vectors have shape {tuple(words.shape)}; wanted are {count} rows of one length.")
    if len(words) != count:
        raise RecipeError(
            f"word_vectors have {len(words)} rows for {count} queries. Give one row per query, in the order of the "
            "classes (or of the groups); the option groups sets the number of queries."
        )
    if not words.isfinite().all():
        raise RecipeError("word_vectors hold values that are not finite numbers.")
    return words
