"""An epoch of `quick`'s head on cached maps, against the plain loop that one would write for it.

    python bench/training_epoch.py [--images 2048] [--rounds 5]
    git worktree add /tmp/before ecbf259
    python bench/training_epoch.py --against /tmp/before [--table coco-mini/train.csv --val coco-mini/val.csv]

Both train the same head from the same weights on the same batches in the same order, with gradients clipped, AdamW, a
running average of the weights, and measure validation images at the end. The rival indexes the maps in memory, converts
them by `float()`, and leaves every product and dropout to torch. Without dropout, which draws other numbers, the losses
must be the same; they may differ in the last digits, since products are summed in another order.

With --against, `tagloom train --recipe quick` of this checkout and of another one take turns on a labelled table (drawn
scenes, if none is given), both with their features in a cache. An epoch is timed by the run's own log; its processor
time is what a run of several epochs takes more than a run of one. The mAP of both stands next to it.
"""

import argparse
import copy
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_array

from ratio import Ratio, as_table, of_seconds
from tagloom.cores import usable_cores
from tagloom.data.scenes import SceneSettings, write_scenes
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
from tagloom.training.log import LOG_FILE, RunLog
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
ROOT = Path(__file__).parent.parent
EPOCHS = 4  # of a run of another checkout; more than 1


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
        for module in start.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        ours()
        plain()
        np.testing.assert_allclose(found["ours"][0], found["plain"][0], rtol=1e-3)
    what = f"an epoch of `quick`'s head on {images:,} cached maps, {threads} thread{'s' if threads > 1 else ''}"
    return of_seconds(what, "a plain torch loop, same losses", best["ours"], best["plain"])


def compare_checkouts(other: Path, table: Path | None, val: Path | None, rounds: int) -> None:
    """Let `tagloom train` of both checkouts take turns, and print the best epoch of each."""
    sides = {"this checkout": ROOT, str(other): other}
    best = dict.fromkeys(sides, math.inf)
    processor = {(side, epochs): math.inf for side in sides for epochs in (1, EPOCHS)}
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if table is None:
            write_scenes(folder / "scenes", train=2000, val=500, test=1, settings=SceneSettings(size=256))
            table, val = folder / "scenes" / "train.csv", folder / "scenes" / "val.csv"
        for number in range(rounds + 1):  # the first fills the caches
            for epochs in (1, EPOCHS):
                for side, checkout in sides.items():
                    out, cache = folder / "run", folder / f"cache-{checkout.name}"
                    rows, used = train(checkout, table, val, out, cache, epochs)
                    if number:
                        processor[side, epochs] = min(processor[side, epochs], used)
                        best[side] = min(best[side], *(row["seconds"] for row in rows))
                        found[side] = rows[-1]["mAP"]
                    shutil.rmtree(out)
    spent = {side: (processor[side, EPOCHS] - processor[side, 1]) / (EPOCHS - 1) for side in sides}
    for side in sides:
        print(f"{side}: {best[side]:.2f} s an epoch, {spent[side]:.2f} s of a core; mAP {found[side]:.2f}")
    ours, theirs = sides
    print(f"{best[theirs] / best[ours]:.2f} times as fast; {spent[theirs] / spent[ours]:.2f} times by processor time")


def train(
    checkout: Path, table: Path, val: Path | None, out: Path, cache: Path, epochs: int
) -> tuple[list[dict[str, float]], float]:
    """Run `tagloom train` of a checkout; give the rows of its log, and its processor time in seconds."""
    options = ["--val", str(val)] if val else []
    command = [sys.executable, "-m", "tagloom", "train", str(table), *options, "--recipe", "quick"]
    command += ["--epochs", str(epochs), "--out", str(out), "--cache", str(cache)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    rows = [json.loads(line) for line in (out / LOG_FILE).read_text(encoding="utf-8").splitlines()]
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [row for row in rows if "mAP" in row and "seconds" in row], used


def run(brief: bool = False) -> list[Ratio]:
    """Compare with one thread and with all cores."""
    images, rounds = (256, 1) if brief else (2048, 3)
    return [compare(images, rounds, threads) for threads in sorted({1, usable_cores()})]


def main() -> None:
    """Print the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--images", type=int, default=2048)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--against", type=Path, help="another checkout of Tagloom")
    arguments.add_argument("--table", type=Path, help="a label table to train on, with --against")
    arguments.add_argument("--val", type=Path, help="a label table to validate on, with --against")
    given = arguments.parse_args()
    if given.against:
        compare_checkouts(given.against.resolve(), given.table, given.val, given.rounds)
        return
    print(as_table([compare(given.images, given.rounds, threads) for threads in sorted({1, usable_cores()})]))


if __name__ == "__main__":
    main()
