"""How long parting many labels takes, and how much memory: python bench/label_graph.py --labels 9600.

Draws a sparse table whose labels are as uneven as in open vocabularies (the n-th label has a share of 1 / n) and
keep company in blocks, parts both graphs, and prints one line of JSON per graph: labels, images, pairs of labels that
meet, seconds, and the peak of resident memory in MB, beside what the table and the imports take alone.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import sklearn.cluster  # imported here, so that its memory and time are not counted as ours
from scipy.sparse import csr_array

from ratio import Ratio, of_seconds
from tagloom.labels.graph import partition
from timing import best_seconds


def draw_table(images: int, labels: int, blocks: int, per_image: int) -> "csr_array[np.bool_, tuple[int, int]]":
    """Draw images of `per_image` labels, half of them from one block and half from anywhere."""
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, labels + 1)
    anywhere = rng.choice(labels, size=(images, per_image), p=share / share.sum())
    home = rng.integers(blocks, size=(images, 1))
    near = anywhere // blocks * blocks + home  # labels of a block are alike in their rest
    columns = np.where(rng.random(anywhere.shape) < 0.5, np.minimum(near, labels - 1), anywhere)
    rows = np.repeat(np.arange(images), per_image)
    table = csr_array((np.ones(rows.size, np.bool_), (rows, columns.ravel())), shape=(images, labels))
    table.sum_duplicates()
    return table


def peak_megabytes() -> float:
    """The most memory this process has held at once."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return round(int(status.split("VmHWM:")[1].split()[0]) / 1024, 1)


def run(brief: bool = False) -> list[Ratio]:
    """Compare with spectral clustering of the matrix of labels x labels, as scikit-learn does it."""
    labels, images, parts = (300, 5_000, 5) if brief else (2_000, 100_000, 5)
    table = draw_table(images, labels, blocks=20, per_image=10)
    found = []
    for kind in ("co", "dis"):

        def ours(kind: str = kind) -> None:
            partition(table, k=parts, kind=kind)

        def rival(kind: str = kind) -> None:
            counts = (table.T.astype(np.int32) @ table.astype(np.int32)).toarray().astype(np.float64)
            often = np.diag(counts).clip(1)
            together = counts / (often[:, None] + often - counts)
            affinity = together if kind == "co" else 1 - together
            np.fill_diagonal(affinity, 0)
            # Labels that meet no other one need some company: scikit-learn cannot place them.
            sklearn.cluster.SpectralClustering(parts, affinity="precomputed", random_state=0).fit(affinity + 1e-9)

        best = best_seconds({"ours": ours, "rival": rival}, rounds=1 if brief else 2, warm_up=0)
        what = f"parting {labels:,} labels of {images:,} images by {kind}-occurrence"
        found.append(of_seconds(what, "scikit-learn on the dense matrix", best["ours"], best["rival"]))
    return found


def main() -> None:
    """Draw a table and part its labels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=9_600)
    parser.add_argument("--images", type=int, default=500_000)
    parser.add_argument("--k", type=int, default=5)
    options = parser.parse_args()
    table = draw_table(options.images, options.labels, blocks=20, per_image=10)
    met = int((table.T.astype(np.int32) @ table.astype(np.int32)).nnz)
    before = peak_megabytes()
    for kind in ("co", "dis"):
        started = time.perf_counter()
        parts = partition(table, k=options.k, kind=kind)
        seconds = time.perf_counter() - started
        found = {"kind": kind, "labels": options.labels, "images": options.images, "pairs_that_meet": met}
        sizes = [len(part) for part in parts]
        print(json.dumps({**found, "sizes": sizes, "seconds": round(seconds, 1), "before_mb": before,
                          "peak_mb": peak_megabytes()}))  # fmt: skip


if __name__ == "__main__":
    main()
