"""Running images through a frozen backbone into the feature cache, in one process."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tagloom.cache_folder import EXTRACTORS, FEATURES
from tagloom.cores import usable_cores
from tagloom.data.packed.images import ImageFile
from tagloom.data.reading import Computed, compute_on_pictures
from tagloom.errors import ImageError
from tagloom.models.network import Extractor, TaggerNetwork
from tagloom.progress import Progress, no_progress
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.onnx_runner import OnnxNetwork
from tagloom.training.features.cache import FeatureCache
from tagloom.training.features.exported import open_exported
from tagloom.training.features.stored import Maps, Stored, as_stored
from tagloom.training.features.views import PLAIN, View
from tagloom.training.signals import StopRequest

SHARD_IMAGES = 1024
SHARD_BYTES = 256 << 20  # what is held in memory before a shard is written
Extract = Callable[[NDArray[np.uint8]], list[NDArray[np.float32]]]
Note = Callable[[str], None]


def no_note(text: str) -> None:
    """Tell nobody about damage in the cache."""


@dataclass(frozen=True)
class ExtractionJob:
    """What to compute of every image, and where it is kept: all that a process needs to do a part of it.

    Attributes:
        network: What runs before anything trained is used.
        preprocess: Size and fit.
        cache_folder: Root of all caches.
        device: Where the backbone runs; on CPUs it runs in ONNX Runtime.
        view: How the pictures are seen.
        maps: How feature maps are stored.
    """

    network: TaggerNetwork
    preprocess: Preprocess
    cache_folder: Path
    device: torch.device
    view: View = PLAIN
    maps: Maps = "float16"

    def open_cache(self, note: Note = no_note) -> FeatureCache:
        """Open the cache of these features, with all that is complete in it."""
        folder = self.cache_folder / FEATURES / extractor_key(self.network, self.preprocess, self.view, self.maps)
        return FeatureCache(folder, {**self._about, "summary": self.network.kept_names, "view": str(self.view)}, note)

    def open_network(self, note: Note = no_note) -> Extract:
        """Make the function that runs the backbone. Views differ in the pictures only, so all share one."""
        exported = self.cache_folder / EXTRACTORS
        return make_extractor(self.network, self.preprocess, exported, self._about, self.device, note)

    def fill(
        self,
        cache: FeatureCache,
        run: Extract,
        todo: Sequence[str],
        path_of: Mapping[str, ImageFile],
        stop: StopRequest,
        progress: Progress = no_progress,
    ) -> dict[str, ImageError]:
        """Run images through the backbone and write them to the cache shard by shard; a stop keeps what is done.

        Args:
            cache: What `open_cache` gave.
            run: What `open_network` gave.
            todo: The images by content, none of them in the cache.
            path_of: Where to read each.
            stop: When requested, what was computed is kept and `Interrupted` raised.
            progress: Called with images done and images to do.

        Returns:
            The error of each image that cannot be read, by content.
        """
        broken: dict[str, ImageError] = {}
        done: list[str] = []
        summaries: list[Stored] = []
        held = finished = 0

        def flush() -> None:
            if done:
                cache.add(done, *summaries)
                done.clear()
                summaries.clear()

        for indices, summary, errors in self._summaries(run, todo, path_of):
            if summary is not None:
                summaries.append(as_stored(summary, maps=self.maps, channels=self.network.kept_channels))
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
        self, run: Extract, keys: Sequence[str], path_of: Mapping[str, ImageFile]
    ) -> Iterator[Computed[list[NDArray[np.float32]]]]:
        """Read images, by key, and run them through the backbone, batch by batch, in order."""
        return compute_on_pictures(
            [path_of[key] for key in keys],
            self.preprocess,
            run,
            streams=isinstance(run, OnnxNetwork),
            threads=usable_cores(),
            augmentation=self.view.augmentation,
            draw=lambda index: self.view.draw(keys[index]),
        )

    @property
    def _about(self) -> dict[str, Any]:
        return {"backbone": self.network.backbone.name, "size": self.preprocess.size}


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


def make_extractor(
    network: TaggerNetwork,
    preprocess: Preprocess,
    exported: Path,
    about: dict[str, Any],
    device: torch.device,
    note: Note = no_note,
) -> Extract:
    """Make the function that runs the backbone: ONNX Runtime on CPUs, torch elsewhere and for what has no ONNX form.

    The ONNX network uses one core per call, so that `ExtractionJob.fill` can call it on all cores at once.
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
