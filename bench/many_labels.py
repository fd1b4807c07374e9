"""Training and measuring at the scale of Open Images: 9,600 labels, up to a million rows, features instead of pictures.

    python bench/many_labels.py training              # 10,000, 100,000 and 1,000,000 rows: minutes, 6 GB of disk
    python bench/many_labels.py metrics               # mAP of 100,000 x 9,600: minutes, 4 GB of disk
    python bench/many_labels.py training --rows 2000 --labels 300 --steps 5    # seconds: shows that it works

Training builds a table as Open Images' is (a dozen checked labels per image, all other pairs unknown, label frequencies
with a long tail), holds images out, and takes steps with the loop of `tagloom train`: ML-Decoder with 100 queries, the
asymmetric loss of the Open Images recipe, cached feature maps from shards on disk. The decoder is narrow (width 64), so
that reading the data weighs as much as it can. Then the held-out images are scored, calibrated, given thresholds and
measured, as at the end of a training. Each size runs in a process of its own.

Memory is printed twice: what the process holds itself, and the peak with the parts of mapped files that the system
kept in memory because nobody else needed it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

CHANNELS, SIDE = 32, 4
QUERIES = 100
SHARD_ROWS = 10_000
BATCH = 64


def make_table(rows: int, labels: int) -> Any:
    """A table with eight positive and four negative checked labels per image, Zipf's law over labels."""
    from scipy.sparse import csr_array

    from tagloom.data.table import LabelTable

    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, labels + 1)
    edges = np.cumsum(share / share.sum())
    # Every label gets one image, as a data set keeps no label without any.
    drawn = np.minimum(np.searchsorted(edges, rng.random((rows, 12))), labels - 1)
    drawn[np.arange(labels) % rows, 0] = np.arange(labels)
    where = np.repeat(np.arange(rows), 8), drawn[:, :8].ravel()
    positive = csr_array((np.ones(len(where[0]), np.bool_), where), shape=(rows, labels))
    positive.sum_duplicates()
    positive.data[:] = True
    where = np.repeat(np.arange(rows), 4), drawn[:, 8:].ravel()
    negative = csr_array((np.ones(len(where[0]), np.bool_), where), shape=(rows, labels))
    negative.sum_duplicates()
    negative.data[:] = True
    names = tuple(f"label {number}" for number in range(labels))
    images = [f"{row:07d}.jpg" for row in range(rows)]
    negative = csr_array(negative > positive)
    return LabelTable(Path(), images, names, positive, negative, "unknown", source="synthetic")


def write_features(folder: Path, rows: int) -> None:
    """Write the features of all images as a training finds them: shards of a feature cache."""
    from tagloom.training.features.cache import FeatureCache

    cache = FeatureCache(folder)
    for first in range(0, rows, SHARD_ROWS):
        numbers = range(first, min(first + SHARD_ROWS, rows))
        values = np.random.default_rng(first).standard_normal((len(numbers), CHANNELS, SIDE, SIDE), np.float32)
        cache.add([f"{row:07d}" for row in numbers], [values])


class SomeBatches:
    """The first batches of every epoch."""

    def __init__(self, batches: Any, steps: int) -> None:
        self.batches, self.steps, self.labels = batches, steps, batches.labels

    def __len__(self) -> int:
        return self.steps

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """Give the first batches of the epoch's whole order."""
        return islice(self.batches.epoch(epoch, start), self.steps - start)


class Memory:
    """The peak of what a process holds itself, looked at twenty times a second, and of all that is mapped."""

    def __init__(self) -> None:
        self.own = 0
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            self.own = max(self.own, _status("RssAnon"))
            time.sleep(0.05)

    def peaks(self) -> dict[str, float]:
        """Megabytes."""
        return {"own_mb": round(self.own / 1024), "with_mapped_files_mb": round(_status("VmHWM") / 1024)}


def _status(name: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split(f"{name}:")[1].split()[0])


@contextmanager
def timed(found: dict[str, Any], what: str) -> Iterator[None]:
    """Note the seconds of a stage, and those of the processor, which other programs on the machine hardly change."""
    start, used = time.perf_counter(), time.process_time()
    yield
    found[f"{what}_s"], found[f"{what}_cpu_s"] = (
        round(time.perf_counter() - start, 2),
        round(time.process_time() - used, 2),
    )


def train(rows: int, labels: int, steps: int, folder: Path) -> dict[str, Any]:
    """Train, score the held-out images and choose all that a tagger needs; give seconds, rates and memory."""
    import torch

    from tagloom.data.absent import presume_negative
    from tagloom.losses import create_loss
    from tagloom.models.heads import create_head
    from tagloom.recipe import Recipe, load_recipe
    from tagloom.training.checkpoint import CheckpointStore
    from tagloom.training.context import RunContext
    from tagloom.training.features.cache import FeatureCache
    from tagloom.training.features.feature_batches import FeatureBatches
    from tagloom.training.finish import decide, measure
    from tagloom.training.log import RunLog
    from tagloom.training.loop import fit
    from tagloom.training.optimiser import create_optimiser
    from tagloom.training.signals import StopRequest
    from tagloom.training.tables import Tables, hold_out
    from tagloom.training.tasks.supervised import SupervisedTask
    from tagloom.training.unknown import loss_with_unknown
    from tagloom.training.validation import score_batches

    torch.set_num_threads(1)
    memory, found = Memory(), {"rows": rows, "labels": labels}
    recipe = load_recipe("ml-decoder-openimages-tresnet-m-224")
    training = replace(recipe.training, epochs=1, select="last", patience=0, batch_size=BATCH)
    usual = Recipe()  # papers hold nothing out; `tagloom train` does
    recipe = replace(recipe, training=training, data=usual.data, calibration=usual.calibration)
    with timed(found, "table"):
        table = make_table(rows, labels)
    with timed(found, "hold_out"):
        held_out = hold_out(table, recipe)
    tables = Tables(table, held_out, None)
    learn, held = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    with timed(found, "shards"):
        write_features(folder / "features", rows)
    with timed(found, "check_shards"):
        features = FeatureCache(folder / "features").view([f"{row:07d}" for row in range(rows)])
    torch.manual_seed(0)
    head = create_head(
        "ml-decoder",
        in_channels=CHANNELS,
        classes=labels,
        width=64,
        decoder={"name": "cross-attention", "feed_forward": 128},
        readout={"groups": min(QUERIES, labels)},
    )
    loss = loss_with_unknown(recipe, create_loss(recipe.loss.name, **recipe.loss.options), tables)
    task = SupervisedTask(head.classify, loss)
    batches = FeatureBatches([features.select(learn)], table.select(learn), batch_size=BATCH, seed=0)
    store = CheckpointStore(folder, "bench")
    with RunLog(folder) as log:
        context = RunContext(folder, torch.device("cpu"), folder, StopRequest(), log)
        for what, count in (("warm_up", 5), ("steps", steps)):
            store.remove()
            with timed(found, what):
                fit(
                    head,
                    task,
                    SomeBatches(batches, count),
                    create_optimiser(head, recipe.optimiser),
                    recipe.training,
                    recipe.optimiser,
                    validate=dict,
                    store=store,
                    context=context,
                )
    found["images_per_second"] = round(steps * BATCH / found["steps_s"], 1)
    found["images_per_cpu_second"] = round(steps * BATCH / found["steps_cpu_s"], 1)
    found["training"] = memory.peaks()
    to_measure = presume_negative(table.select(held), tables.silent)
    part = FeatureBatches([features.select(held)], to_measure, batch_size=256, seed=0)
    with timed(found, "score_held_out"):
        scored = score_batches(head.classify, part, folder=folder, device=torch.device("cpu"))
    found["held_out"] = scored.logits.shape[0]
    with timed(found, "calibrate_and_thresholds"):
        decision = decide(scored, recipe, table.tree)
    with timed(found, "metrics"):
        counts = tuple(np.bincount(table.positive[learn].indices, minlength=labels).tolist())
        metrics = measure(scored, recipe, decision, table.tree, counts)
    found["mAP_of_noise"] = round(metrics["mAP"], 2)
    found["finished"] = memory.peaks()
    return found


def measure_map(rows: int, labels: int, folder: Path) -> dict[str, Any]:
    """Write scores to a file and measure them; give seconds and memory beyond the scores, which are not loaded."""
    from scipy.sparse import csc_array

    from tagloom.metrics import average_precision, score

    memory, found = Memory(), {"rows": rows, "labels": labels}
    scores = np.lib.format.open_memmap(folder / "scores.npy", "w+", np.float16, (rows, labels))
    rng = np.random.default_rng(0)
    step = max(1, 10_000_000 // labels)
    for first in range(0, rows, step):
        scores[first : first + step] = rng.random((min(step, rows - first), labels), np.float32)
    scores.flush()
    found["scores_gb"] = round(scores.nbytes / 1e9, 2)
    positives = [np.sort(rng.choice(rows, max(1, rows // (column + 10)), replace=False)) for column in range(labels)]
    offsets = np.concatenate([[0], np.cumsum([len(column) for column in positives])])
    indices = np.concatenate(positives)
    targets = csc_array((np.ones(len(indices), np.bool_), indices, offsets), shape=(rows, labels))
    scores = np.load(folder / "scores.npy", mmap_mode="r")
    before = memory.own
    with timed(found, "average_precision"):
        precision = average_precision(scores, targets)
    found["mAP_of_noise"] = round(100 * float(np.nanmean(precision)), 3)
    with timed(found, "everything"):
        score(scores, targets)
    peaks = memory.peaks()
    found["before_mb"], found["own_mb"] = round(before / 1024), peaks["own_mb"]
    found["with_mapped_files_mb"] = peaks["with_mapped_files_mb"]
    return found


def main() -> None:
    """Run a size of one kind in this process, or all sizes in processes of their own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["training", "metrics"])
    parser.add_argument("--rows", type=int, nargs="+", help="10000 100000 1000000 for training, 100000 for metrics")
    parser.add_argument("--labels", type=int, default=9_600)
    parser.add_argument("--steps", type=int, default=150, help=f"training steps, of {BATCH} images each")
    parser.add_argument("--folder", type=Path, help="where temporary files go; by default the system's folder for them")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes = given.rows or ([10_000, 100_000, 1_000_000] if given.what == "training" else [100_000])
    if not given.here:
        for rows in sizes:
            again = [given.what, "--here", "--rows", str(rows), "--labels", str(given.labels), "--steps"]
            where = ["--folder", str(given.folder)] if given.folder else []
            subprocess.run([sys.executable, __file__, *again, str(given.steps), *where], check=True)
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        if given.what == "training":
            found = train(sizes[0], given.labels, given.steps, folder)
        else:
            found = measure_map(sizes[0], given.labels, folder)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
