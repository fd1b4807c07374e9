"""Co-occurrence and dis-occurrence graphs of labels, and how to split the labels by them.

From CPSD (Xu et al., "Boosting Multi-Label Image Classification with Complementary Parallel Self-Distillation").
The co-occurrence graph is stored sparsely. The dis-occurrence graph, a matrix of ones minus it, is never written out.
So ten thousand labels are split in seconds.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tagloom.checks import check_choice, check_positive
from tagloom.errors import MissingExtraError, RecipeError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Kind: TypeAlias = Literal["co", "dis"]
KINDS = ("co", "dis")
_FAINT = 1e-6  # the least affinity of any two labels, so that no graph is disconnected
_STARTS = 100  # of k-means, of which the best is taken; with fewer, the parts of one graph differ between seeds


def affinity(labels: Any, kind: Kind = "co", tau: float = 3.0) -> NDArray[np.float32]:
    """Compute the affinity of each two labels.

    S_ij is the share of label i's images that also have j. P⁺ = (S^(1/τ) + (S^(1/τ))ᵀ) / 2 is the co-occurrence
    graph, and P⁻ = 1 − P⁺, with 1 the matrix of ones, the dis-occurrence graph.

    Args:
        labels: (images, N) of 0 and 1, dense or sparse. Unknown pairs count as 0: they prove no co-occurrence.
        kind: "co" or "dis".
        tau: Larger values raise the affinity of labels that rarely co-occur.

    Returns:
        (N, N), symmetric, between 0 and 1. A label without images co-occurs with none.

    >>> affinity([[1, 1, 0], [1, 1, 0], [0, 0, 1]]).round(2).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    check_choice("label graph", kind, KINDS)
    near: NDArray[np.float32] = _co_occurrence(_counts(labels), tau).toarray()
    return near if kind == "co" else np.subtract(1, near, out=near)


def partition(labels: Any, k: int = 5, kind: Kind = "co", tau: float = 3.0, seed: int = 0) -> list[list[int]]:
    """Split the labels into k parts by spectral clustering of their graph.

    "co" puts labels that co-occur into one part; "dis" puts labels that do not.

    Args:
        labels: (images, N) of 0 and 1, dense or sparse.
        k: Number of parts, at most N.
        kind: Which graph.
        tau: See `affinity`.
        seed: The same seed gives the same parts.

    Returns:
        The columns of each part, sorted; parts are in the order of their first class. No part is empty.
    """
    return partition_counts(_counts(labels), k, kind, tau, seed)


def partition_counts(counts: Any, k: int = 5, kind: Kind = "co", tau: float = 3.0, seed: int = 0) -> list[list[int]]:
    """Split labels as `partition` does, from how often each two of them occur together.

    Args:
        counts: (N, N), dense or sparse: the images that have both labels; on the diagonal, those that have the label.
        k: Number of parts, at most N.
        kind: Which graph.
        tau: See `affinity`.
        seed: The same seed gives the same parts.
    """
    from scipy.sparse import csr_array

    check_choice("label graph", kind, KINDS)
    count = int(np.shape(counts)[1])
    _check_k(count, k)
    if k in (1, count):
        return [list(range(count))] if k == 1 else [[label] for label in range(count)]
    try:
        from sklearn.cluster import KMeans
        from threadpoolctl import threadpool_limits  # scikit-learn brings it
    except ImportError as error:
        raise MissingExtraError("Splitting a label graph", "train") from error
    points = _embed(_co_occurrence(csr_array(counts, dtype=np.float32), tau), k, kind, seed)
    # Each step of k-means is over in microseconds. More threads would wait for each other far longer than that.
    with threadpool_limits(1):
        found = KMeans(k, n_init=_STARTS, random_state=seed).fit_predict(points)
    return _in_order([np.flatnonzero(found == number) for number in range(k)])


def random_partition(
    count: int, k: int = 5, seed: int = 0, sizes: Literal["even", "random"] = "even"
) -> list[list[int]]:
    """Split labels at random into k parts: the control for `partition`.

    Args:
        count: Number of labels, N.
        k: Number of parts, at most N.
        seed: The same seed gives the same parts.
        sizes: "even" for sizes that differ by at most one; "random" to cut the shuffled labels at k - 1 different
            places, each set of places as likely as any other.

    Returns:
        The columns of each part, as `partition` gives them.

    >>> sorted(len(part) for part in random_partition(8, k=3))
    [2, 3, 3]
    >>> sorted(len(part) for part in random_partition(8, k=3, sizes="random"))
    [2, 2, 4]
    """
    _check_k(count, k)
    check_choice("sizes of random parts", sizes, ("even", "random"))
    rng = np.random.default_rng(seed)
    order = rng.permutation(count)
    if sizes == "even":
        parts = np.array_split(order, k)
    else:
        parts = np.split(order, np.sort(rng.choice(np.arange(1, count), k - 1, replace=False)))
    return _in_order([np.sort(part) for part in parts])


def nearness(near: NDArray[np.floating], parts: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Average the affinity between parts.

    Args:
        near: (N, N), from `affinity`.
        parts: Columns of each part.

    Returns:
        (k, k): the mean between part a and part b; on the diagonal, the mean over different labels of one part, or NaN
        if the part has only one label.
    """
    k = len(parts)
    mean = np.full((k, k), np.nan)
    for a, rows in enumerate(parts):
        for b, columns in enumerate(parts):
            block = near[np.ix_(rows, columns)].astype(np.float64)
            if a != b:
                mean[a, b] = block.mean()
            elif len(rows) > 1:
                mean[a, a] = (block.sum() - block.trace()) / (len(rows) * (len(rows) - 1))
    return mean


def _counts(labels: Any) -> "csr_array[Any, tuple[int, int]]":
    """Count the images that have each two labels, (N, N), sparse."""
    from scipy.sparse import csr_array

    matrix = csr_array(labels, dtype=np.float32)
    return csr_array(matrix.T @ matrix)


def _co_occurrence(counts: "csr_array[Any, tuple[int, int]]", tau: float) -> "csr_array[Any, tuple[int, int]]":
    """P⁺ of `affinity`, (N, N), sparse."""
    from scipy.sparse import csr_array

    check_positive("tau", tau)
    share = counts.copy()
    images = np.maximum(share.diagonal(), 1)
    share.data /= np.repeat(images, np.diff(share.indptr))
    np.power(share.data, 1 / tau, out=share.data)
    near = csr_array(share + share.T)
    near.data /= 2
    return near


def _embed(co_occurrence: "csr_array[Any, tuple[int, int]]", k: int, kind: Kind, seed: int) -> NDArray[np.float64]:
    """Embed the labels in k dimensions by the first eigenvectors of the normalised graph, (N, k).

    The smallest eigenvalues of the Laplacian are the largest of D^(-1/2) P D^(-1/2), so Lanczos finds them from matrix-
    vector products alone. With P⁻ a product is the sum of the vector minus the product with P⁺. The affinity of a label
    to itself is ignored: it would separate rare labels from all others.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    count = co_occurrence.shape[0]
    own = co_occurrence.diagonal().astype(np.float64)
    sign, base = (1.0, _FAINT) if kind == "co" else (-1.0, 1.0 + _FAINT)

    def times(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        flat = vector.ravel()
        # In float32 like the graph: otherwise scipy would copy the whole graph for each product.
        reached = (co_occurrence @ flat.astype(np.float32)).astype(np.float64) - own * flat
        product: NDArray[np.float64] = sign * reached + base * (flat.sum() - flat)
        return product

    root = np.sqrt(np.maximum(times(np.ones(count)), _FAINT))
    graph = LinearOperator((count, count), matvec=lambda vector: times(vector.ravel() / root) / root, dtype=np.float64)
    start = np.random.default_rng(seed).standard_normal(count)
    _, vectors = eigsh(graph, k=k, which="LA", v0=start, tol=1e-6)
    points: NDArray[np.float64] = vectors[:, ::-1] / root[:, None]
    return points


def _in_order(parts: Sequence[NDArray[np.int64]]) -> list[list[int]]:
    return sorted((part.tolist() for part in parts if len(part)), key=lambda part: int(part[0]))


def _check_k(count: int, k: int) -> None:
    if not 1 <= k <= count:
        raise RecipeError(f"{count} labels cannot be split into {k} parts; choose from 1 to {count}.")
