"""Which labels keep each other's company, and how to part them: co-occurrence and dis-occurrence graphs.

From CPSD (Xu et al., "Boosting Multi-Label Image Classification with Complementary Parallel Self-Distillation").
"""

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import MissingExtraError, RecipeError, unknown_name

Kind: TypeAlias = Literal["co", "dis"]
KINDS = ("co", "dis")


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
    from scipy.sparse import csr_array

    if kind not in KINDS:
        raise RecipeError(unknown_name("label graph", str(kind), KINDS))
    if tau <= 0:
        raise RecipeError(f"tau is {tau}; it must be greater than 0.")
    matrix = csr_array(labels, dtype=np.float32)
    together = np.asarray((matrix.T @ matrix).todense(), np.float32)
    images = together.diagonal().copy()
    share = together
    share /= np.maximum(images, 1)[:, None]
    np.power(share, 1 / tau, out=share)
    near = share + share.T
    near /= 2
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
    count = int(np.shape(labels)[1])
    if not 1 <= k <= count:
        raise RecipeError(f"{count} labels cannot be parted into {k} groups; choose from 1 to {count}.")
    if k in (1, count):
        return [list(range(count))] if k == 1 else [[label] for label in range(count)]
    try:
        from sklearn.cluster import SpectralClustering
    except ImportError as error:
        raise MissingExtraError("parting a label graph", "train") from error
    clusters = SpectralClustering(n_clusters=k, affinity="precomputed", random_state=seed, assign_labels="kmeans")
    # Labels without any company would leave the graph in pieces, which the eigenvectors do not order.
    found = clusters.fit_predict(np.maximum(affinity(labels, kind, tau), 1e-6))
    parts = [np.flatnonzero(found == number).tolist() for number in range(k)]
    return sorted((part for part in parts if part), key=lambda part: part[0])
