"""Filling the feature cache: every image through the frozen backbone once."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from tagloom.cache_folder import EXTRACTORS, FEATURES
from tagloom.cores import usable_cores
from tagloom.data.images import content_hash
from tagloom.data.packed.images import ImageFile
from tagloom.data.reading import Computed, compute_on_pictures
from tagloom.errors import ImageError
from tagloom.models.network import Extractor, TaggerNetwork
from tagloom.progress import Progress, no_progress
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.onnx_runner import OnnxNetwork
from tagloom.training.features.cache import CachedFeatures, FeatureCache
from tagloom.training.features.exported import open_exported
from tagloom.training.features.stored import Maps, Stored, as_stored
from tagloom.training.features.views import PLAIN, View
from tagloom.training.ranks import ALONE, World
from tagloom.training.signals import StopRequest

SHARD_IMAGES = 1024
SHARD_BYTES = 256 << 20  # what is held in memory before a shard is written
ATTEMPTS = 3
Extract = Callable[[NDArray[np.uint8]], list[NDArray[np.float32]]]
Note = Callable[[str], None]
Where = TypeVar("Where", int, str)


@dataclass(frozen=True)
class Extraction:
    """Features of the readable images, and the errors of the others.

    Attributes:
        rows: Rows of the input that could be read, in order.
        features: Their summaries, aligned with `rows`.
        broken: The row and error of each image that could not be read.
        computed: How many images went through the backbone; the others were in the cache.
        keys: The content hash of each readable image, aligned with `rows`.
    """

    rows: NDArray[np.int64]
    features: CachedFeatures
    broken: list[tuple[int, ImageError]]
    computed: int
    keys: list[str]


def extract_features(
    network: TaggerNetwork,
    paths: Sequence[ImageFile],
    preprocess: Preprocess,
    *,
    cache_folder: Path,
    device: torch.device,
    stop: StopRequest,
    world: World = ALONE,
    view: View = PLAIN,
    maps: Maps = "float16",
    check: Callable[[list[tuple[int, ImageError]]], None] = lambda broken: None,
    reading: Progress = no_progress,
    progress: Progress = no_progress,
    note: Note = lambda text: None,
) -> Extraction:
    """Give the summaries of images, computing only those that the cache does not hold.

    Args:
        network: What runs before anything trained is used.
        paths: The images.
        preprocess: Size and fit.
        cache_folder: Root of all caches.
        device: Where the backbone runs; on CPUs it runs in ONNX Runtime.
        stop: When requested, what was computed is kept and `Interrupted` raised.
        world: Each of its processes reads and computes its share; all get all.
        view: How the pictures are seen.
        maps: How feature maps are stored.
        check: Called with the unreadable images, first with the missing files and again at the end; may raise.
        reading: Called with files read and files to read, while they are looked up in the cache.
        progress: Called with images done and images to do, while the backbone runs.
        note: Called with a sentence about damage in the cache, which is repaired by computing again.
    """
    keys, unreadable = _content_keys(paths, stop, world, reading)
    check(sorted(unreadable.items()))
    about = {"backbone": network.backbone.name, "size": preprocess.size}
    folder = cache_folder / FEATURES / extractor_key(network, preprocess, view, maps)
    open_cache = partial(FeatureCache, folder, {**about, "summary": network.kept_names, "view": str(view)}, note)
    cache = open_cache()
    path_of = {key: path for key, path in zip(keys, paths, strict=True) if key is not None}
    store = partial(as_stored, maps=maps, channels=network.kept_channels)
    broken: dict[str, ImageError] = {}
    run: Extract | None = None
    computed = 0
    for _ in range(ATTEMPTS):  # more than one only if somebody clears the cache at the same time
        todo: list[str] = []
        with world.leaving_together(stop):
            missing = (key for key in cache.missing(path_of, stop.leave_if_requested) if key not in broken)
            todo = [key for key in missing if _rank_of(key, world.size) == world.rank]
        if not world.total(len(todo)):
            break
        if run is None:  # views differ in the pictures only, so all share one exported network
            make = partial(make_extractor, network, preprocess, cache_folder / EXTRACTORS, about, device, note)
            run = world.first_goes_first(make)
        unread: dict[str, ImageError] = {}
        with world.leaving_together(stop):
            unread = _fill(cache, run, todo, path_of, preprocess, view=view, store=store, stop=stop, progress=progress)
        broken |= dict(gather_errors(unread.items(), world))
        computed += world.total(len(todo) - len(unread))
        if world.size > 1:
            cache = open_cache()  # with what the others have added
    for row, key in enumerate(keys):
        if key in broken:  # of identical files only one was read, but all are named
            unreadable[row] = ImageError(str(paths[row]), broken[key].reason, broken[key].finding)
    check(sorted(unreadable.items()))
    rows = np.array([row for row in range(len(paths)) if row not in unreadable], np.int64)
    found = [cast(str, keys[row]) for row in rows]
    return Extraction(rows, cache.view(found), sorted(unreadable.items()), computed, found)


def extractor_key(network: TaggerNetwork, preprocess: Preprocess, view: View, maps: Maps = "float16") -> str:
    """Name an extractor by everything that its stored output depends on: weights, preprocessing, view and summary.

    Below a tail only the weights up to the cut count, so networks whose tails and heads differ share their features.
    """
    digest = hashlib.blake2b(digest_size=16)
    backbone = network.backbone
    stages = network.head.stages if backbone.cut is None else ()
    choices: dict[str, Any] = {
        "preprocess": asdict(preprocess),
        "summary": network.kept_names,
        "stages": stages,
        "view": asdict(view),
    }
    if maps != "float16":  # left out otherwise, so that features from before there was a choice are still found
        choices["maps"] = maps
    digest.update(json.dumps(choices, sort_keys=True).encode())
    digest.update(backbone.name.encode())
    for tensor_name, value in backbone.frozen_tensors().items():
        digest.update(tensor_name.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _content_keys(
    paths: Sequence[ImageFile], stop: StopRequest, world: World, reading: Progress
) -> tuple[list[str | None], dict[int, ImageError]]:
    """Hash every file; a file that is missing has the key None and an error, by row."""
    mine = world.share(range(len(paths)))

    def key(path: ImageFile) -> str | ImageError:
        try:
            return content_hash(path)
        except ImageError as error:
            return error

    keys: list[str | None] = []
    errors: list[tuple[int, ImageError]] = []
    with world.leaving_together(stop), ThreadPoolExecutor(usable_cores() * 2) as pool:
        for row, result in zip(mine, pool.map(key, [paths[row] for row in mine]), strict=True):
            stop.leave_if_requested()
            keys.append(None if isinstance(result, ImageError) else result)
            if isinstance(result, ImageError):
                errors.append((row, result))
            reading(len(keys), len(mine))
    every = [found for share in world.gather(keys) for found in share]
    return every, dict(gather_errors(errors, world))


def gather_errors(mine: Iterable[tuple[Where, ImageError]], world: World) -> list[tuple[Where, ImageError]]:
    """Give the unreadable images of all processes, each with its row or key."""
    said = [(where, (error.path, error.reason, error.finding)) for where, error in mine]
    return [(where, ImageError(*error)) for share in world.gather(said) for where, error in share]


def _rank_of(key: str, ranks: int) -> int:
    """Say which process computes an image. Its content alone decides, so no list has to be agreed on."""
    return int(key[:8], 16) % ranks


def make_extractor(
    network: TaggerNetwork,
    preprocess: Preprocess,
    exported: Path,
    about: dict[str, Any],
    device: torch.device,
    note: Note = lambda text: None,
) -> Extract:
    """Make the function that runs the backbone: ONNX Runtime on CPUs, torch elsewhere and for what has no ONNX form.

    The ONNX network uses one core per call, so that `_summaries` can call it on all cores at once.
    """
    extractor = Extractor(network).eval()
    if device.type == "cpu":
        key = extractor_key(network, preprocess, PLAIN)
        found = open_exported(extractor, exported, key, size=preprocess.size, about=about, note=note)
        if found is not None:
            return found
    extractor.to(device)

    @torch.inference_mode()
    def run(pictures: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
        return [value.float().cpu().numpy() for value in extractor(torch.from_numpy(pictures).to(device))]

    return run


def _fill(
    cache: FeatureCache,
    run: Extract,
    todo: list[str],
    path_of: dict[str, ImageFile],
    preprocess: Preprocess,
    *,
    view: View,
    store: Callable[[list[NDArray[np.float32]]], Stored],
    stop: StopRequest,
    progress: Progress,
) -> dict[str, ImageError]:
    """Run the missing images, by key, through the backbone and write them shard by shard; a stop keeps what is done.

    Returns:
        The error of each image that cannot be read, by key.
    """
    broken: dict[str, ImageError] = {}
    done: list[str] = []
    summaries: list[Stored] = []
    held = 0

    def flush() -> None:
        if done:
            cache.add(done, *summaries)
            done.clear()
            summaries.clear()

    finished = 0
    for indices, summary, errors in _summaries(run, todo, path_of, preprocess, view):
        if summary is not None:
            summaries.append(store(summary))
            held += sum(tensor.nbytes for tensor in summaries[-1])
            done.extend(todo[index] for index in indices)
        broken.update((todo[index], error) for index, error in errors)
        finished += len(indices) + len(errors)
        progress(finished, len(todo))
        if len(done) >= SHARD_IMAGES or held >= SHARD_BYTES or stop.requested:
            flush()
            held = 0
        stop.leave_if_requested()
    flush()
    return broken


def _summaries(
    run: Extract, keys: list[str], path_of: dict[str, ImageFile], preprocess: Preprocess, view: View
) -> Iterator[Computed[list[NDArray[np.float32]]]]:
    """Read images, by key, and run them through the backbone, batch by batch, in order."""
    return compute_on_pictures(
        [path_of[key] for key in keys],
        preprocess,
        run,
        streams=isinstance(run, OnnxNetwork),
        threads=usable_cores(),
        augmentation=view.augmentation,
        draw=lambda index: view.draw(keys[index]),
    )
