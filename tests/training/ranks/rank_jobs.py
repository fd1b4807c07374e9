"""A process that has imported everything, and forks ranks: real processes, which talk by gloo, without the wait.

Each line of its input is a job: {"job": name, "ranks": how many, …}. Each line of its output is what its ranks gave.
"""

import json
import os
import socket
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import nn

from tagloom.data.images import walk_images
from tagloom.data.table import LabelTable
from tagloom.errors import TaggerError, TagloomError
from tagloom.losses import create_loss
from tagloom.models.network import build_network
from tagloom.predict.files import Job
from tagloom.predict.tagger import load
from tagloom.predict.together import run_together
from tagloom.recipe import load_recipe
from tagloom.recipe.parts import OptimiserSettings, TrainingSettings
from tagloom.recipe.pictures import Augment, Preprocess
from tagloom.training.checkpoint import CheckpointStore
from tagloom.training.context import RunContext
from tagloom.training.features import exported
from tagloom.training.features.cache import CachedFeatures
from tagloom.training.features.extract import extract_features
from tagloom.training.features.feature_batches import FeatureBatches
from tagloom.training.features.fill import ExtractionJob
from tagloom.training.features.picture_batches import PictureBatches
from tagloom.training.log import RunLog
from tagloom.training.loop import fit
from tagloom.training.optimiser import create_optimiser
from tagloom.training.ranks import World, join_world
from tagloom.training.signals import StopRequest
from tagloom.training.tasks.supervised import SupervisedTask
from tagloom.training.validation import Watched, score_batches, watch

CPU = torch.device("cpu")
COUNT, WIDTH, CLASSES = 21, 6, 5


def train(
    world: World, folder: Path, norm: bool = False, batch: int = 4, stop_at: int = 0, fault: str = "", **settings: Any
) -> Any:
    """Train on 21 images, some pairs of which are unknown, and give weights, losses and metrics."""
    rng = np.random.default_rng(1)
    positive = rng.random((COUNT, CLASSES)) < 0.4
    unknown = csr_array(~positive & (rng.random((COUNT, CLASSES)) < 0.2))
    names = [str(row) for row in range(COUNT)]
    table = LabelTable(folder, names, tuple("abcde"), csr_array(positive), unknown, "negative")
    features = rng.normal(size=(COUNT, WIDTH)).astype(np.float32)
    views = [CachedFeatures([[part]], np.zeros(COUNT, np.int64), np.arange(COUNT)) for part in (features, -features)]
    batches = FeatureBatches(views, table, batch_size=batch, seed=7, chances=(0.5, 0.5), world=world)
    torch.manual_seed(world.rank)  # the first rank's weights count
    middle = [nn.BatchNorm1d(8)] if norm else []
    module = nn.Sequential(nn.Linear(WIDTH, 8), *middle, nn.ReLU(), nn.Linear(8, CLASSES))
    optimising = OptimiserSettings(learning_rate=0.05, clip_norm=0.5)
    training = TrainingSettings(seed=7, **{"epochs": 17, "accumulate": 2, "ema": 0.9, **settings})
    stop = StopRequest()
    stages: list[int] = []

    class Faulty(CheckpointStore):
        def save(self, state: dict[str, Any]) -> None:
            if fault == "disk":
                raise TagloomError("the disk is full")
            super().save(state)

    def forward(inputs: torch.Tensor) -> torch.Tensor:
        stages.append(len(inputs))
        if world.rank == world.size - 1 and len(stages) == stop_at:
            stop.signal_number = 15  # asked of the last rank alone
        spoilt = fault == "nan" and world.rank == 1 and len(stages) > 5
        logits: torch.Tensor = module(inputs)
        return logits * float("nan") if spoilt else logits

    with RunLog(folder if world.is_first else None) as log:
        context = RunContext(folder, CPU, folder, stop, log, world)
        recipe = load_recipe("quick-gap")
        history = fit(
            module,
            SupervisedTask(forward, create_loss("asymmetric")),
            batches,
            create_optimiser(module, optimising),
            training,
            optimising,
            validate=lambda: watch(Watched(batches, "images"), module, recipe, context),
            store=Faulty(folder, "same"),
            context=context,
        )
        scored = score_batches(module, batches, folder=folder, device=CPU, world=world)
    weights = {name: value.tolist() for name, value in module.state_dict().items()}
    return {
        "weights": weights,
        "losses": [row["loss"] for row in history],
        "mAP": [row["mAP"] for row in history],
        "logits": scored.logits.tolist(),
        "targets": scored.targets.toarray().astype(int).tolist(),
        "images": sum(stages),
    }


def features(world: World, folder: Path, images: str) -> Any:
    """Extract the features of a folder of images, and give them with how many this rank computed."""

    def refuse(*given: object, **options: object) -> float:
        raise TaggerError("the export is not what is tested")

    exported.export_onnx = refuse
    computed: list[str] = []
    fill = ExtractionJob.fill

    def counted(job: ExtractionJob, cache: Any, run: Any, todo: list[str], *given: Any) -> Any:
        computed.extend(todo)
        return fill(job, cache, run, todo, *given)

    ExtractionJob.fill = counted  # type: ignore[method-assign]
    torch.manual_seed(0)
    names = {"backbone": "test_efficientnet", "head": "gap", "head_options": {}}
    network = build_network(**names, weights="none", classes=3, size=32, frozen=True).eval()
    found = extract_features(
        network,
        sorted(Path(images).iterdir()),
        Preprocess(size=32),
        cache_folder=folder,
        device=CPU,
        stop=StopRequest(),
        world=world,
    )
    return {
        "rows": found.rows.tolist(),
        "features": found.features.gather(np.arange(len(found.rows)))[0].tolist(),
        "broken": [[row, str(error)] for row, error in found.broken],
        "computed": computed,
        "total": found.computed,
    }


def pictures(world: World, folder: Path, images: str) -> Any:
    """Read two epochs of pictures, and give the rows of each batch that this rank read."""
    paths = sorted(walk_images(Path(images)))
    table = LabelTable(folder, list(map(str, paths)), ("a",), csr_array(np.ones((len(paths), 1), bool)))
    batches = PictureBatches(table, Preprocess(size=32), Augment(), batch_size=7, seed=3, workers=0, world=world)
    return [[batch.rows.tolist() for batch in batches.epoch(epoch)] for epoch in (0, 1)]


def tag(world: World, folder: Path, tagger: str, images: str, stop_at: int = 0, resume: bool = False) -> Any:
    """Tag images into a file; give how many were tagged and failed, and what was said about those that failed."""
    stop, said = StopRequest(), []

    def after(done: int) -> None:
        if stop_at and done >= stop_at:
            stop.signal_number = 15
        stop.leave_if_requested()

    job = Job(load(tagger), [Path(images)], folder / "tags.csv", folder / "scores.parquet")
    if world.size == 1:
        return job.run(resume=resume, on_image=after, on_error=lambda error: said.append(str(error))), said
    return run_together(job, world, stop, resume=resume, on_image=after, on_error=said.append), said


JOBS = {job.__name__: job for job in (train, features, pictures, tag)}


def run_rank(rank: int, ranks: int, port: int, name: str, result: Path, **given: Any) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    try:
        with join_world("cpu") as world:
            content = {"result": JOBS[name](world, Path(given.pop("folder")), **given)}
    except TagloomError as error:
        content = {"error": type(error).__name__, "message": str(error)}
    except BaseException:  # noqa: BLE001 - the test shows it
        content = {"error": "NOT OURS", "message": traceback.format_exc()}
    result.write_text(json.dumps(content))


def run_job(job: str, ranks: int, **given: Any) -> list[Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        results = [Path(folder) / str(rank) for rank in range(ranks)]
        children = []
        for rank in range(ranks):
            child = os.fork()
            if child == 0:
                run_rank(rank, ranks, port, job, results[rank], **given)
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        return [json.loads(result.read_text()) for result in results]


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(run_job(**json.loads(line))), flush=True)
