"""Measuring a machine: what an image and a label cost here. Takes about half a minute."""

import os
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path

import numpy as np
import torch

from tagloom.cache_folder import EXTRACTORS
from tagloom.cores import usable_cores
from tagloom.data.images import open_image
from tagloom.data.scenes.settings import SceneSettings
from tagloom.data.scenes.writing import write_scenes
from tagloom.data.transforms import decode_size, prepare
from tagloom.losses import create_loss
from tagloom.models.heads import create_head
from tagloom.models.network import TaggerNetwork, build_network, pick_device
from tagloom.recipe import Recipe
from tagloom.sizing.profile import Profile
from tagloom.tagger.onnx_runner import OnnxNetwork
from tagloom.training.features.fill import Extract, make_extractor
from tagloom.training.features.stored import as_stored
from tagloom.training.optimiser import create_optimiser
from tagloom.training.products import fast_products

SECONDS = 3.0  # for each rate
FEW_LABELS, MANY_LABELS = 400, 9600  # both above the 100 queries of ML-Decoder, so only what labels add differs
DRAWN = 24
DECODED = 32  # images at a time
BATCH = 64
DISK_BYTES = 128 << 20


def measure_machine(
    recipe: Recipe, cache_folder: Path, *, images: Sequence[Path] = (), device: str = "auto"
) -> Profile:
    """Measure this machine.

    Args:
        recipe: Whose backbone, head and picture size are measured.
        cache_folder: Where exported backbones are kept, and the disk whose speed is measured.
        images: Image files of yours; without any, drawn pictures of 640 x 640.
        device: "auto", "cpu", "cuda" or "mps".
    """
    chosen = pick_device(device)
    with tempfile.TemporaryDirectory() as folder:
        files = images or _drawn(Path(folder))
        decode_rate = _decode_rate(files, recipe)
        image_bytes = float(np.mean([path.stat().st_size for path in files]))
    network = build_network(
        backbone=recipe.backbone.name,
        weights=recipe.backbone.weights,
        head=recipe.head.name,
        head_options=recipe.head.options,
        classes=FEW_LABELS,
        size=recipe.preprocess.size,
        frozen=True,
        normalise=recipe.backbone.normalise,
        depths=recipe.backbone.depths,
    )
    run = make_extractor(network, recipe.preprocess, cache_folder / EXTRACTORS, {}, chosen)
    pictures = np.zeros((1, recipe.preprocess.size, recipe.preprocess.size, 3), np.uint8)
    summary = run(pictures)
    stored = as_stored(summary, recipe.training.cached_maps, network.kept_channels)
    few_step, few_bytes = _head_step(network, recipe, summary, FEW_LABELS, chosen)
    many_step, many_bytes = _head_step(network, recipe, summary, MANY_LABELS, chosen)
    with fast_products(chosen):
        few, many = (seconds / BATCH for seconds in quickest(few_step, many_step))
    more = MANY_LABELS - FEW_LABELS
    per_label = max((many - few) / more, 1e-12)  # noise can make more labels look cheaper
    return Profile(
        machine=f"{_processor()}, {usable_cores()} cores, {_memory_bytes() / 1e9:.0f} GB",
        device=torch.cuda.get_device_name() if chosen.type == "cuda" else chosen.type,
        source=f"measured {datetime.now(UTC):%Y-%m-%d}" + ("" if images else ", with drawn pictures"),
        network=f"{recipe.name}: {recipe.backbone.name}, {recipe.head.name}, {recipe.preprocess.size} px",
        cores=usable_cores(),
        memory_bytes=_memory_bytes(),
        decode_rate=decode_rate,
        extract_rate=_extract_rate(run, pictures),
        head_seconds_per_image=max(few - FEW_LABELS * per_label, 1e-9),
        head_seconds_per_label=per_label,
        read_rate=_read_rate(cache_folder),
        image_bytes=image_bytes,
        feature_bytes=float(sum(array.nbytes for array in stored)),
        head_bytes=max(few_bytes - FEW_LABELS * (many_bytes - few_bytes) / more, 1.0),
        head_bytes_per_label=(many_bytes - few_bytes) / more,
    )


def quickest(*works: Callable[[], object]) -> list[float]:
    """Give the seconds of each work at its quickest, repeated in turns: other programs slow down the other times."""
    for work in works:
        work()
    best, ends = [float("inf")] * len(works), time.perf_counter() + SECONDS * len(works)
    while time.perf_counter() < ends or float("inf") in best:
        for place, work in enumerate(works):
            started = time.perf_counter()
            work()
            best[place] = min(best[place], max(time.perf_counter() - started, 1e-9))
    return best


def _drawn(folder: Path) -> list[Path]:
    write_scenes(folder / "drawn", train=DRAWN, val=1, test=0, settings=SceneSettings(size=640))
    return sorted((folder / "drawn" / "images").iterdir())


def _decode_rate(images: Sequence[Path], recipe: Recipe) -> float:
    """Read, decode and resize images in one thread."""
    following = cycle(images)
    least = decode_size(recipe.preprocess, None)

    def some() -> None:
        for _ in range(DECODED):
            prepare(open_image(next(following), at_least=least), recipe.preprocess)

    return DECODED / quickest(some)[0]


def _extract_rate(run: Extract, pictures: np.ndarray) -> float:
    """Run pictures through the backbone as extraction does: one per core at a time, or batches on a GPU."""
    if not isinstance(run, OnnxNetwork):
        batch = np.repeat(pictures, 32, axis=0)
        return len(batch) / quickest(lambda: run(batch))[0]
    cores = usable_cores()
    batch = np.repeat(pictures, 4, axis=0)
    with ThreadPoolExecutor(cores) as pool:
        return cores * len(batch) / quickest(lambda: list(pool.map(run, [batch] * cores)))[0]


def _head_step(
    network: TaggerNetwork,
    recipe: Recipe,
    summary: Sequence[np.ndarray],
    labels: int,
    device: torch.device,
) -> tuple[Callable[[], None], float]:
    """Give a training step of the head, and the bytes of its weights."""
    body = network.backbone
    head = create_head(
        recipe.head.name,
        in_channels=body.out_channels,
        classes=labels,
        stage_channels=body.stage_channels,
        **recipe.head.options,
    ).to(device)
    optimiser = create_optimiser(head, recipe.optimiser)
    loss = create_loss(recipe.loss.name, **recipe.loss.options)
    inputs = [torch.randn(BATCH, *array.shape[1:], device=device) for array in summary]
    targets = (torch.rand(BATCH, labels, device=device) < 0.01).float()

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        loss(head.classify(*inputs), targets).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return step, float(sum(value.numel() * value.element_size() for value in head.parameters()))


def _read_rate(folder: Path) -> float:
    """Write a file to the disk, make the system forget it where that can be asked for, and read it back."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        block = os.urandom(1 << 20)
        for _ in range(DISK_BYTES >> 20):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        started = time.perf_counter()
        while file.read(1 << 20):
            pass
        return DISK_BYTES / max(time.perf_counter() - started, 1e-9)


def _memory_bytes() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # Windows
        return 16e9


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
