"""Which labels keep each other's company, and how to part them: co-occurrence and dis-occurrence graphs.

From CPSD (Xu et al., "Boosting Multi-Label Image Classification with Complementary Parallel Self-Distillation").
The co-occurrence graph is kept sparse and the dis-occurrence graph, which is the matrix of ones without it, is never
written out, so that ten thousand labels are parted in seconds.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import MissingExtraError, RecipeError, unknown_name

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Kind: TypeAlias = Literal["co", "dis"]
KINDS = ("co", "dis")
_FAINT = 1e-6  # what every two labels are near each other at the least, so that no graph falls into pieces
_STARTS = 100  # of k-means, of which the best counts: with fewer the parts of one graph differ between seeds


def affinity(labels: Any, kind: Kind = "co", tau: float = 3.0) -> NDArray[np.float32]:
    """Say how near each two labels are.

    S_ij is the share of label i's images that also carry j. P⁺ = (S^(1/τ) + (S^(1/τ))ᵀ) / 2 is the co-occurrence
    graph, and P⁻ = 1 − P⁺, with 1 the matrix of ones, the dis-occurrence graph.

    Args:
        labels: (images, N) of 0 and 1, dense or sparse. Unknown pairs count as 0: they prove no company.
        kind: "co" or "dis".
        tau: Larger values lift rare company.

    Returns:
        (N, N), symmetric, between 0 and 1. A label without images has no company at all.

    >>> affinity([[1, 1, 0], [1, 1, 0], [0, 0, 1]]).round(2).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    _check_kind(kind)
    near: NDArray[np.float32] = _company(labels, tau).toarray()
    return near if kind == "co" else np.subtract(1, near, out=near)


def partition(labels: Any, k: int = 5, kind: Kind = "co", tau: float = 3.0, seed: int = 0) -> list[list[int]]:
    """Part the labels into k groups by spectral clustering of their graph.

    "co" puts labels together that appear together; "dis" puts labels together that do not.

    Args:
        labels: (images, N) of 0 and 1, dense or sparse.
        k: Number of parts, at most N.
        kind: Which graph.
        tau: See `affinity`.
        seed: The same seed gives the same parts.

    Returns:
        Class indices of each part, each sorted; parts in the order of their first class. None is empty.
    """
    _check_kind(kind)
    count = int(np.shape(labels)[1])
    _check_k(count, k)
    if k in (1, count):
        return [list(range(count))] if k == 1 else [[label] for label in range(count)]
    try:
        from sklearn.cluster import KMeans
    except ImportError as error:
        raise MissingExtraError("parting a label graph", "train") from error
    places = _embed(_company(labels, tau), k, kind, seed)
    found = KMeans(k, n_init=_STARTS, random_state=seed).fit_predict(places)
    return _in_order([np.flatnonzero(found == number) for number in range(k)])


def random_partition(count: int, k: int = 5, seed: int = 0) -> list[list[int]]:
    """Part labels by chance into k groups whose sizes differ by at most one: the control for `partition`.

    >>> sorted(len(part) for part in random_partition(8, k=3))
    [2, 3, 3]
    """
    _check_k(count, k)
    order = np.random.default_rng(seed).permutation(count)
    return _in_order([np.sort(part) for part in np.array_split(order, k)])


def nearness(near: NDArray[np.floating], parts: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Average an affinity over pairs of parts.

    Args:
        near: (N, N), what `affinity` gives.
        parts: Class indices of each part.

    Returns:
        (k, k): between part a and part b, and on the diagonal inside a part over pairs of different labels; NaN inside
        a part of one label.
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


def _company(labels: Any, tau: float) -> "csr_array[Any, tuple[int, int]]":
    """P⁺ of `affinity`, (N, N), sparse."""
    from scipy.sparse import csr_array

    if not tau > 0:
        raise RecipeError(f"tau is {tau}; it must be greater than 0.")
    matrix = csr_array(labels, dtype=np.float32)
    share = csr_array(matrix.T @ matrix)
    images = np.maximum(share.diagonal(), 1)
    share.data /= np.repeat(images, np.diff(share.indptr))
    np.power(share.data, 1 / tau, out=share.data)
    near = csr_array(share + share.T)
    near.data /= 2
    return near


def _embed(company: "csr_array[Any, tuple[int, int]]", k: int, kind: Kind, seed: int) -> NDArray[np.float64]:
    """Place the labels in k dimensions by the normalised graph's first eigenvectors, (N, k).

    The Laplacian's least eigenvalues are the largest of D^(-1/2) P D^(-1/2), so Lanczos finds them from products with
    vectors alone; with P⁻ a product is the vector's sum minus the product with P⁺. A label's nearness to itself counts
    for nothing: it would keep rare labels apart from all others.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    count = company.shape[0]
    own = company.diagonal().astype(np.float64)
    sign, base = (1.0, _FAINT) if kind == "co" else (-1.0, 1.0 + _FAINT)

    def times(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        flat = vector.ravel()
        # In float32, as the graph is: scipy would otherwise copy all of it for each product.
        reached = (company @ flat.astype(np.float32)).astype(np.float64) - own * flat
        product: NDArray[np.float64] = sign * reached + base * (flat.sum() - flat)
        return product

    root = np.sqrt(np.maximum(times(np.ones(count)), _FAINT))
    graph = LinearOperator((count, count), matvec=lambda vector: times(vector.ravel() / root) / root, dtype=np.float64)
    start = np.random.default_rng(seed).standard_normal(count)
    _, vectors = eigsh(graph, k=k, which="LA", v0=start, tol=1e-6)
    places: NDArray[np.float64] = vectors[:, ::-1] / root[:, None]
    return places


def _in_order(parts: Sequence[NDArray[np.int64]]) -> list[list[int]]:
    return sorted((part.tolist() for part in parts if len(part)), key=lambda part: int(part[0]))


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise RecipeError(unknown_name("label graph", str(kind), KINDS))


def _check_k(count: int, k: int) -> None:
    if not 1 <= k <= count:
        raise RecipeError(f"{count} labels cannot be parted into {k} groups; choose from 1 to {count}.")
