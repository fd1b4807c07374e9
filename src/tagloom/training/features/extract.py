"""Getting the features of all images: from the cache, and what it lacks from this process, others, or workers."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from tagloom.cores import usable_cores
from tagloom.data.images import content_hash
from tagloom.data.packed.images import ImageFile
from tagloom.errors import ImageError, TagloomError
from tagloom.models.network import TaggerNetwork
from tagloom.progress import Progress, no_progress
from tagloom.recipe.pictures import Preprocess
from tagloom.training.features.cache import CachedFeatures
from tagloom.training.features.fill import Extract, ExtractionJob, Note, no_note
from tagloom.training.features.stored import Maps
from tagloom.training.features.views import PLAIN, View
from tagloom.training.ranks import ALONE, World
from tagloom.training.signals import StopRequest

ATTEMPTS = 3
HASHED_AT_ONCE = 4096  # files: each that waits for a thread takes a kilobyte or two
Where = TypeVar("Where", int, str)


class Workers(Protocol):
    """Processes elsewhere that read and compute in place of this one."""

    def hash(self, paths: Sequence[ImageFile], progress: Progress) -> list[str | ImageError]:
        """Give the content hash of every file, or what is wrong with it."""

    def fill(
        self, job: ExtractionJob, todo: Sequence[str], paths: Sequence[ImageFile], progress: Progress
    ) -> dict[str, ImageError]:
        """Write the features of images to the cache; give the error of each that cannot be read, by content."""


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
    workers: Workers | None = None,
    view: View = PLAIN,
    maps: Maps = "float16",
    check: Callable[[list[tuple[int, ImageError]]], None] = lambda broken: None,
    reading: Progress = no_progress,
    progress: Progress = no_progress,
    note: Note = no_note,
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
        workers: Read and compute instead, for a world of one process.
        view: How the pictures are seen.
        maps: How feature maps are stored.
        check: Called with the unreadable images, first with the missing files and again at the end; may raise.
        reading: Called with files read and files to read, while they are looked up in the cache.
        progress: Called with images done and images to do, while the backbone runs.
        note: Called with a sentence about damage in the cache, which is repaired by computing again.
    """
    job = ExtractionJob(network, preprocess, cache_folder, device, view, maps)
    keys, unreadable = _content_keys(paths, stop, world, workers, reading)
    check(sorted(unreadable.items()))
    cache = job.open_cache(note)
    path_of = {key: path for key, path in zip(keys, paths, strict=True) if key is not None}
    broken: dict[str, ImageError] = {}
    run: Extract | None = None
    computed = 0
    given: list[str] = []
    for _ in range(ATTEMPTS):  # more than one only if somebody clears the cache at the same time
        todo: list[str] = []
        with world.leaving_together(stop):
            missing = (key for key in cache.missing(path_of, stop.leave_if_requested) if key not in broken)
            todo = [key for key in missing if _rank_of(key, world.size) == world.rank]
        if not world.total(len(todo)):
            break
        unread: dict[str, ImageError] = {}
        if workers is not None and todo == given:
            raise TagloomError(
                f"{cache.folder}: holds nothing of what the workers have computed. Name a --cache in a folder that all "
                "machines share, under the same path."
            )
        given = todo
        if workers is not None:
            unread = workers.fill(job, todo, [path_of[key] for key in todo], progress)
        else:
            run = run or world.first_goes_first(lambda: job.open_network(note))
            with world.leaving_together(stop):
                unread = job.fill(cache, run, todo, path_of, stop, progress)
        broken |= dict(gather_errors(unread.items(), world))
        computed += world.total(len(todo) - len(unread))
        if world.size > 1 or workers is not None:
            cache = job.open_cache(note)  # with what the others have added
    for row, key in enumerate(keys):
        if key in broken:  # of identical files only one was read, but all are named
            unreadable[row] = ImageError(str(paths[row]), broken[key].reason, broken[key].finding)
    check(sorted(unreadable.items()))
    rows = np.array([row for row in range(len(paths)) if row not in unreadable], np.int64)
    found = [cast(str, keys[row]) for row in rows]
    return Extraction(rows, cache.view(found), sorted(unreadable.items()), computed, found)


def hash_files(
    paths: Sequence[ImageFile], stop: StopRequest, progress: Progress = no_progress
) -> list[str | ImageError]:
    """Give the content hash of every file, or what is wrong with it."""

    def key(path: ImageFile) -> str | ImageError:
        try:
            return content_hash(path)
        except ImageError as error:
            return error

    found: list[str | ImageError] = []
    with ThreadPoolExecutor(usable_cores() * 2) as pool:
        for first in range(0, len(paths), HASHED_AT_ONCE):
            for result in pool.map(key, paths[first : first + HASHED_AT_ONCE]):
                stop.leave_if_requested()
                found.append(result)
                progress(len(found), len(paths))
    return found


def _content_keys(
    paths: Sequence[ImageFile], stop: StopRequest, world: World, workers: Workers | None, reading: Progress
) -> tuple[list[str | None], dict[int, ImageError]]:
    """Hash every file; a file that is missing has the key None and an error, by row."""
    mine = world.share(range(len(paths)))
    found: list[str | ImageError] = []
    with world.leaving_together(stop):
        found = workers.hash(paths, reading) if workers else hash_files([paths[row] for row in mine], stop, reading)
    errors = [(row, result) for row, result in zip(mine, found, strict=True) if isinstance(result, ImageError)]
    keys = [None if isinstance(result, ImageError) else result for result in found]
    every = [key for share in world.gather(keys) for key in share]
    return every, dict(gather_errors(errors, world))


def gather_errors(mine: Iterable[tuple[Where, ImageError]], world: World) -> list[tuple[Where, ImageError]]:
    """Give the unreadable images of all processes, each with its row or key."""
    said = [(where, (error.path, error.reason, error.finding)) for where, error in mine]
    return [(where, ImageError(*error)) for share in world.gather(said) for where, error in share]


def _rank_of(key: str, ranks: int) -> int:
    """Say which process computes an image. Its content alone decides, so no list has to be agreed on."""
    return int(key[:8], 16) % ranks
