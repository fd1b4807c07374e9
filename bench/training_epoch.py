"""An epoch of `quick`'s head on cached maps, against the plain loop that one would write for it.

    python bench/training_epoch.py [--images 2048] [--rounds 5]

Both train the same head from the same weights on the same batches in the same order, with dropout from the same seeds,
gradients clipped, AdamW, a running average of the weights, and measure validation images at the end. The rival indexes
the maps in memory, converts them by `float()`, and leaves every product to torch. The losses must be the same; they may
differ in the last digits, since products are summed in another order.
"""

import argparse
import copy
import tempfile
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_array

from ratio import Ratio, as_table, of_seconds
from tagloom.cores import usable_cores
from tagloom.data.table import LabelTable
from tagloom.losses import asymmetric_loss
from tagloom.metrics import score
from tagloom.models.heads import Head, create_head
from tagloom.recipe.parts import OptimiserSettings, TrainingSettings
from tagloom.training.checkpoint import CheckpointStore
from tagloom.training.context import RunContext
from tagloom.training.features.batches import epoch_order
from tagloom.training.features.cache import FeatureCache
from tagloom.training.features.feature_batches import FeatureBatches
from tagloom.training.log import RunLog
from tagloom.training.loop import fit
from tagloom.training.optimiser import WeightAverage, create_optimiser, learning_rate_at, set_learning_rate
from tagloom.training.signals import StopRequest
from tagloom.training.tasks.supervised import SupervisedTask
from tagloom.training.validation import headline, score_batches
from timing import best_seconds

CHANNELS, SIDE, CLASSES, BATCH = 1280, 7, 80, 64
TRAINING = TrainingSettings(epochs=1, batch_size=BATCH, ema=0.99, select="last", seed=0, checkpoint_minutes=1e6)
OPTIMISING = OptimiserSettings(name="adamw", learning_rate=0.001, weight_decay=0.01, clip_norm=5.0)
CPU = torch.device("cpu")


class Data:
    """Maps as a backbone gives them, in float16, and their labels; the last fourth of the images is for validation."""

    def __init__(self, folder: Path, images: int) -> None:
        rng = np.random.default_rng(0)
        self.maps = np.maximum(rng.standard_normal((images, CHANNELS, SIDE, SIDE), np.float32), 0).astype(np.float16)
        self.targets = rng.random((images, CLASSES)) < 0.04
        self.learned = 3 * images // 4
        keys = [str(row) for row in range(images)]
        cache = FeatureCache(folder)
        cache.add(keys, [self.maps])
        table = LabelTable(folder, keys, tuple(f"class {n}" for n in range(CLASSES)), csr_array(self.targets))
        every, seen = np.arange(images), cache.view(keys)
        self.batches = [
            FeatureBatches([seen.select(rows)], table.select(rows), batch_size=BATCH, seed=0)
            for rows in (every[: self.learned], every[self.learned :])
        ]


def tagloom_epoch(head: Head, data: Data, folder: Path) -> tuple[float, float]:
    """Train an epoch as `tagloom train` does, and give the mean loss and the mAP."""
    learn, val = data.batches

    def validate() -> dict[str, float]:
        return headline(score_batches(head.classify, val, device=CPU), task="multilabel", activation="sigmoid")

    with StopRequest() as stop, RunLog(folder, None, False) as log, tempfile.TemporaryDirectory() as out:
        (row,) = fit(
            head,
            SupervisedTask(head.classify, lambda logits, targets, known: asymmetric_loss(logits, targets, known=known)),
            learn,
            create_optimiser(head, OPTIMISING),
            TRAINING,
            OPTIMISING,
            validate=validate,
            store=CheckpointStore(Path(out), "bench"),
            context=RunContext(folder, CPU, folder, stop, log),
        )
    return row["loss"], row["mAP"]


def plain_epoch(head: Head, data: Data) -> tuple[float, float]:
    """Train the same epoch in a plain loop."""
    optimiser, average = create_optimiser(head, OPTIMISING), WeightAverage(head, TRAINING.ema)
    order, losses = epoch_order(data.learned, 0, 0), []
    steps = -(-data.learned // BATCH)
    head.train()
    for step in range(steps):
        rows = order[step * BATCH : (step + 1) * BATCH]
        torch.manual_seed(step)
        schedule, warmup = OPTIMISING.schedule, OPTIMISING.warmup
        rate = learning_rate_at(step, steps, peak=OPTIMISING.learning_rate, schedule=schedule, warmup=warmup)
        set_learning_rate(optimiser, rate)
        logits = head.classify(torch.from_numpy(data.maps[rows]).float())
        loss = asymmetric_loss(logits, torch.from_numpy(data.targets[rows]).float())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(head.parameters()), OPTIMISING.clip_norm)
        optimiser.step()
        average.update(head)
        losses.append(loss.item())
    average.swap(head)
    head.eval()
    scores = []
    with torch.no_grad():
        for first in range(data.learned, len(data.maps), BATCH):
            maps = torch.from_numpy(data.maps[first : first + BATCH]).float()
            scores.append(torch.sigmoid(head.classify(maps)).numpy())
    return float(np.mean(losses)), float(score(np.concatenate(scores), data.targets[data.learned :])["mAP"])


def compare(images: int, rounds: int, threads: int) -> Ratio:
    """Run both epochs in turn."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    start = create_head("ml-decoder-small", in_channels=CHANNELS, classes=CLASSES, feature_dropout=0.5)
    found: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = Data(Path(folder), images)

        def ours() -> None:
            found["ours"] = tagloom_epoch(copy.deepcopy(start), data, Path(folder))

        def plain() -> None:
            found["plain"] = plain_epoch(copy.deepcopy(start), data)

        best = best_seconds({"ours": ours, "plain": plain}, rounds=rounds)
    np.testing.assert_allclose(found["ours"][0], found["plain"][0], rtol=1e-3)
    what = f"an epoch of `quick`'s head on {images:,} cached maps, {threads} thread{'s' if threads > 1 else ''}"
    return of_seconds(what, "a plain torch loop, same losses", best["ours"], best["plain"])


def run(brief: bool = False) -> list[Ratio]:
    """Compare with one thread and with all cores."""
    images, rounds = (256, 1) if brief else (2048, 3)
    return [compare(images, rounds, threads) for threads in sorted({1, usable_cores()})]


def main() -> None:
    """Print the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--images", type=int, default=2048)
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    print(as_table([compare(given.images, given.rounds, threads) for threads in sorted({1, usable_cores()})]))


if __name__ == "__main__":
    main()
