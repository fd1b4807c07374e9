"""Time and memory of `tagloom.metrics` against scikit-learn's average precision, class by class, in one process.

python bench/metrics.py                                  # seconds
python bench/metrics.py --images 40000 --classes 9600    # the size it is made for: minutes, 2 GB of scores and targets
"""

import argparse
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csc_array
from sklearn.metrics import average_precision_score

from ratio import Ratio, as_table, of_seconds
from tagloom.metrics import average_precision, score
from tagloom.scoring.thresholds import choose_thresholds


def make_scores(images: int, classes: int, seed: int = 0) -> tuple[np.ndarray, csc_array]:
    """Scores (n, N) float32 and sparse targets, positives from one to a tenth of the images and scored higher."""
    generator = np.random.default_rng(seed)
    scores = np.empty((images, classes), np.float32)
    generator.random(out=scores, dtype=np.float32)
    share = np.exp(generator.uniform(np.log(1 / images), np.log(0.1), classes))
    rows = [np.flatnonzero(generator.random(images) < part) for part in share]
    rows = [row if len(row) else np.array([index % images]) for index, row in enumerate(rows)]
    for index, row in enumerate(rows):
        scores[row, index] = np.sqrt(scores[row, index])
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    positives = np.concatenate(rows)
    return scores, csc_array((np.ones(len(positives), np.uint8), positives, offsets), shape=(images, classes))


def timed(what: str, run: Callable[[], Any]) -> tuple[Any, float]:
    """The result and the seconds it took, printed with how far it raised the process's peak of memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - start
    raised = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{what:<44} {seconds:8.2f} s   peak memory +{raised:,.0f} MB", file=sys.stderr)
    return result, seconds


def compare(images: int, classes: int) -> Ratio:
    """Run both over the same classes, and check that they agree."""
    scores, targets = make_scores(images, classes)
    print(f"{images:,} images x {classes:,} classes, scores of {scores.nbytes / 2**20:,.0f} MB", file=sys.stderr)

    ours, our_seconds = timed("tagloom.metrics.average_precision", lambda: average_precision(scores, targets))
    timed("tagloom.metrics.score, everything", lambda: score(scores, targets))
    timed("choose_thresholds for F1", lambda: choose_thresholds(scores, targets))

    def reference() -> list[float]:
        truth = np.zeros(images, np.uint8)
        values = []
        for index in range(classes):
            positives = targets.indices[targets.indptr[index] : targets.indptr[index + 1]]
            truth[positives] = 1
            values.append(average_precision_score(truth, scores[:, index]))
            truth[positives] = 0
        return values

    theirs, their_seconds = timed("sklearn.metrics.average_precision_score", reference)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    what = f"average precision of {images:,} images x {classes:,} classes"
    return of_seconds(what, "scikit-learn, class by class, same values", our_seconds, their_seconds)


def run(brief: bool = False) -> list[Ratio]:
    """Compare at a size that takes seconds."""
    return [compare(2_000, 50) if brief else compare(10_000, 500)]


def main() -> None:
    """Compare and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=500)
    options = parser.parse_args()
    print(as_table([compare(options.images, options.classes)]))


if __name__ == "__main__":
    main()
