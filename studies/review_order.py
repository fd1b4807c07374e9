"""What the order of photos in a review is worth: the true labels answer, in the order of `tagloom review` or at random.

    python studies/review_order.py coco-mini/train.csv --val coco-mini/val.csv --seeds 2

A review starts without labels and without a tagger: the first 50 answers are about photos at random. After every 50
answers (100 beyond 300) it retrains, as the page does, and orders the photos that are left anew. mAP is measured on the
validation table, with the same features. "most uncertain first" asks about the photos with the largest possible errors.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from tagloom.cache_folder import default_cache_folder
from tagloom.data import load_table
from tagloom.metrics import score
from tagloom.progress import show_progress
from tagloom.review.learning import RARE, learn, pooled_features
from tagloom.review.order import compact, most_useful_first, possible_errors

START, REPORTED = 50, (100, 300, 1000)
ORDERS = ("most useful first", "at random", "most uncertain first")


def main() -> None:
    """Review with each order and seed, and print the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("table", type=Path)
    arguments.add_argument("--val", type=Path, required=True)
    arguments.add_argument("--cache", type=Path, default=default_cache_folder())
    arguments.add_argument("--seeds", type=int, default=3, help="how many seeds to run")
    given = arguments.parse_args()
    table = load_table(given.table)
    val = load_table(given.val, classes=table.classes)
    console = Console()
    # Both together, so that they are standardised in the same way.
    paths = [part.path(row) for part in (table, val) for row in range(len(part))]
    with show_progress(console, "features") as progress:
        found = pooled_features(paths, cache_folder=given.cache, progress=progress)
    is_val = found.rows >= len(table)
    train, held = found.features[~is_val], found.features[is_val]
    truth = table.targets(found.rows[~is_val]) == 1
    val_truth = val.targets(found.rows[is_val] - len(table))
    results = {
        order: [_review(order, seed, train, truth, held, val_truth) for seed in range(given.seeds)] for order in ORDERS
    }
    lines = [
        f"| order | {' | '.join(f'{count:,} answers' for count in REPORTED)} |",
        "| --- |" + " --- |" * len(REPORTED),
    ]
    for order, runs in results.items():
        values = np.array(runs)
        cells = [f"{mean:.1f} ± {spread:.1f}" for mean, spread in zip(values.mean(0), values.std(0), strict=True)]
        lines.append(f"| {order} | {' | '.join(cells)} |")
    console.print("\n".join(lines), markup=False)


def _review(
    order: str,
    seed: int,
    features: NDArray[np.float32],
    truth: NDArray[np.bool_],
    held: NDArray[np.float32],
    held_truth: NDArray[np.uint8],
) -> list[float]:
    """Answer about photos in an order; give the mAP after each reported number of answers."""
    rng = np.random.default_rng(seed)
    answered = rng.permutation(len(features))[:START]
    known, points = np.zeros_like(truth), compact(features)
    reported = []
    while True:
        known[answered] = True
        learned = learn(features[answered], np.full(truth[answered].shape, RARE, np.float32), truth[answered],
                        known[answered])  # fmt: skip
        if len(answered) in REPORTED:
            scores = learned.scores(held, np.full(held_truth.shape, RARE, np.float32))
            reported.append(float(score(scores, held_truth)["mAP"]))
        if len(answered) >= REPORTED[-1]:
            return reported
        free = np.setdiff1d(np.arange(len(features)), answered)
        scores = learned.scores(features, np.full(truth.shape, RARE, np.float32))
        if order == "at random":
            chosen = rng.permutation(free)
        elif order == "most uncertain first":
            chosen = free[np.argsort(-possible_errors(scores[free], truth[free], known[free]).sum(1), kind="stable")]
        else:
            chosen = np.array(most_useful_first(scores, truth, known, free, points, seed=seed * 10_000 + len(answered)))
        answered = np.concatenate([answered, chosen[: 50 if len(answered) < 300 else 100]])


if __name__ == "__main__":
    main()
