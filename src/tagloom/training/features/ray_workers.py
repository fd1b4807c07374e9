"""Extracting features on many machines: Ray tasks read parts of the images into one cache; see `tagloom.cluster`.

All machines write to the cache folder, which the cluster must see under one path. A task whose worker was lost is
started again and computes what the cache does not hold, and so does a run that was stopped. So only what was not yet
written to a shard is done twice.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch

from tagloom.cluster import Outcomes, ray_cluster, run_tasks
from tagloom.data.packed.images import ImageFile
from tagloom.errors import ImageError, TagloomError
from tagloom.models.network import pick_device
from tagloom.progress import Progress
from tagloom.training.features.extract import hash_files
from tagloom.training.features.fill import SHARD_IMAGES, ExtractionJob
from tagloom.training.signals import Interrupted, StopRequest
from tagloom.wording import listed_lines

Engine: TypeAlias = Literal["local", "ray"]
PARTS_PER_CORE = 16  # enough that no core waits long for the last part, and few enough to open the cache for each


def hash_part(paths: Sequence[ImageFile]) -> list[str | ImageError]:
    """Hash one part of the files: what a Ray task does."""
    with StopRequest() as stop:
        return hash_files(paths, stop)


def fill_part(
    job: ExtractionJob, device: str, keys: Sequence[str], paths: Sequence[ImageFile]
) -> dict[str, ImageError]:
    """Compute those images of one part that the cache does not hold: what a Ray task does."""
    with StopRequest() as stop:
        job = replace(job, device=pick_device(device))
        cache = job.open_cache()
        todo = cache.missing(keys, stop.leave_if_requested)
        if not todo:
            return {}
        return job.fill(cache, job.open_network(), todo, dict(zip(keys, paths, strict=True)), stop)


class RayWorkers:
    """The workers of a Ray cluster, one core each, and one GPU where they use any.

    Args:
        ray: The module, connected.
        device: Where they compute, as `--device` names it.
        stop: When requested, their tasks are cancelled; what they computed is kept.
    """

    def __init__(self, ray: Any, device: str, stop: StopRequest) -> None:
        self._ray = ray
        self._device = device
        self._stop = stop

    def hash(self, paths: Sequence[ImageFile], progress: Progress) -> list[str | ImageError]:
        """Give the content hash of every file, or what is wrong with it."""
        parts = self._parts(len(paths))
        calls = [([_from_anywhere(paths[row]) for row in part],) for part in parts]
        found = self._run(hash_part, calls, list(map(len, parts)), progress, gpus=0)
        every = (key for part in found for key in part)
        return [  # an error names the file as the table does
            ImageError(str(path), key.reason, key.finding) if isinstance(key, ImageError) else key
            for path, key in zip(paths, every, strict=True)
        ]

    def fill(
        self, job: ExtractionJob, todo: Sequence[str], paths: Sequence[ImageFile], progress: Progress
    ) -> dict[str, ImageError]:
        """Write the features of images to the cache; give the error of each that cannot be read, by content."""
        if self._device == "cpu" or not self._ray.cluster_resources().get("GPU"):
            # Exported once, here, and not by every worker at the same time. They have no GPU, even if this process has.
            replace(job, device=torch.device("cpu")).open_network()
        sent = self._ray.put(replace(job, cache_folder=job.cache_folder.resolve()))
        parts = self._parts(len(todo))
        calls = [
            (sent, self._device, [todo[row] for row in part], [_from_anywhere(paths[row]) for row in part])
            for part in parts
        ]
        found = self._run(fill_part, calls, list(map(len, parts)), progress, gpus=0 if self._device == "cpu" else 1)
        return {key: error for part in found for key, error in part.items()}

    def _parts(self, count: int) -> list[range]:
        """Share rows out into ranges: of a shard each, unless that makes too many, or too few to go round."""
        cores = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        wanted = np.clip(-(-count // SHARD_IMAGES), cores, cores * PARTS_PER_CORE)
        ends = np.linspace(0, count, min(count, int(wanted)) + 1).astype(int).tolist()
        return [range(first, end) for first, end in pairwise(ends)]

    def _run(
        self,
        work: Callable[..., Any],
        calls: Sequence[tuple[Any, ...]],
        sizes: Sequence[int],
        progress: Progress,
        gpus: float,
    ) -> list[Any]:
        def tell(outcomes: Outcomes) -> None:
            progress(sum(sizes[int(name)] for name in outcomes.results), sum(sizes))

        outcomes = run_tasks(
            self._ray,
            work,
            {str(number): call for number, call in enumerate(calls)},
            cores=1,
            gpus=gpus,
            again_after=Interrupted,
            stop=self._stop,
            tell=tell,
        )
        if outcomes.errors:
            said = listed_lines(f"part {name}: {error}" for name, error in outcomes.errors.items())
            raise TagloomError(
                f"{len(outcomes.errors)} of {len(calls)} parts of the images failed on the Ray cluster. What the "
                f"others computed is in the cache: fix what follows, and run the command again.\n{said}"
            )
        return [outcomes.results[str(number)] for number in range(len(calls))]


def _from_anywhere(path: ImageFile) -> ImageFile:
    """Give a file so that a worker finds it, whatever folder it works in; a packed image sees to that itself."""
    return path.absolute() if isinstance(path, Path) else path


def workers_of(
    engine: Engine, device: str, stop: StopRequest
) -> Callable[[], AbstractContextManager[RayWorkers | None]]:
    """Give what opens the workers of an engine: those of a Ray cluster, or none."""
    return nullcontext if engine == "local" else partial(_ray_workers, device, stop)


@contextmanager
def _ray_workers(device: str, stop: StopRequest) -> Iterator[RayWorkers]:
    """Connect to the workers of the cluster that RAY_ADDRESS names, or start some on this machine."""
    with ray_cluster(stop) as ray:
        yield RayWorkers(ray, device, stop)
