"""The feature cache: what a frozen backbone says of each image, computed once and kept memory-mapped.

A cache folder belongs to one extractor (weights, preprocessing, summary) and holds shards. A shard is one `.npy` file
per summary tensor and a `.keys` file that names its images by content. The keys are written last and by renaming, so
a killed process leaves at most some files that nobody looks at, and two processes cannot harm each other.
"""

import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import TagloomError
from tagloom.files import whole_file

KEEP_IN_MEMORY_BYTES = 1 << 30
FLOAT32_VALUES = 8192  # summaries up to this many values are kept exactly; feature maps in half precision


class CachedFeatures:
    """The summaries of a list of images, read from shards as they are asked for."""

    def __init__(
        self, shards: list[list[NDArray[np.floating]]], shard_of: NDArray[np.int64], row_of: NDArray[np.int64]
    ) -> None:
        self._shards = shards
        self._shard_of = shard_of
        self._row_of = row_of

    def __len__(self) -> int:
        return len(self._shard_of)

    def select(self, rows: NDArray[np.int64]) -> "CachedFeatures":
        """Give the features of some images alone, in the order given."""
        return CachedFeatures(self._shards, self._shard_of[rows], self._row_of[rows])

    def gather(self, rows: NDArray[np.int64]) -> list[NDArray[np.floating]]:
        """Give the summary tensors of some rows, each (len(rows), …)."""
        if self._whole is not None:
            return [array[rows] for array in self._whole]
        return self._gather(rows)

    @cached_property
    def _whole(self) -> list[NDArray[np.floating]] | None:
        """All summaries in memory, where they are small enough."""
        one_image = sum(array[0].nbytes for array in self._shards[0]) if self._shards else 0
        return self._gather(np.arange(len(self))) if one_image * len(self) <= KEEP_IN_MEMORY_BYTES else None

    def _gather(self, rows: NDArray[np.int64]) -> list[NDArray[np.floating]]:
        shards, places = self._shard_of[rows], self._row_of[rows]
        outputs: list[NDArray[np.floating]] = []
        for number, example in enumerate(self._shards[0] if self._shards else []):
            output = np.empty((len(rows), *example.shape[1:]), example.dtype)
            for shard in np.unique(shards):
                chosen = shards == shard
                output[chosen] = self._shards[shard][number][places[chosen]]
            outputs.append(output)
        return outputs


class FeatureCache:
    """The shards of one extractor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._place: dict[str, tuple[int, int]] = {}
        self._names: list[str] = []
        for path in sorted(folder.glob("*.keys")):
            self._register(path.stem, path.read_text(encoding="ascii").split())

    def missing(self, keys: Sequence[str]) -> list[str]:
        """List the keys that are not there yet, each once, in order."""
        return [key for key in dict.fromkeys(keys) if key not in self._place]

    def add(self, keys: Sequence[str], arrays: Sequence[NDArray[np.floating]]) -> None:
        """Write a shard: arrays (len(keys), …), one per summary tensor."""
        name = uuid.uuid4().hex
        paths = [self.folder / f"{name}.{number}.npy" for number in range(len(arrays))]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for path, array in zip(paths, arrays, strict=True):
                small = array[0].size <= FLOAT32_VALUES
                np.save(path, array.astype(np.float32 if small else np.float16, copy=False), allow_pickle=False)
            with whole_file(self.folder / f"{name}.keys") as partial:
                partial.write_text("\n".join(keys), encoding="ascii")
        except OSError as error:
            for path in paths:
                with suppress(OSError):
                    path.unlink()
            raise TagloomError(
                f"{self.folder}: features could not be kept ({error}). What was kept before is untouched: make room, "
                "or name another folder with --cache or TAGLOOM_CACHE, and run it again."
            ) from error
        self._register(name, list(keys))

    def view(self, keys: Sequence[str]) -> CachedFeatures:
        """Give the features of images by key, in the order given; all keys must be there."""
        used = sorted({self._place[key][0] for key in keys})
        number = {shard: place for place, shard in enumerate(used)}
        shards = [self._open(self._names[shard]) for shard in used]
        places = [self._place[key] for key in keys]
        return CachedFeatures(
            shards,
            np.array([number[shard] for shard, _ in places], np.int64),
            np.array([row for _, row in places], np.int64),
        )

    def _register(self, name: str, keys: list[str]) -> None:
        self._names.append(name)
        for row, key in enumerate(keys):
            self._place.setdefault(key, (len(self._names) - 1, row))

    def _open(self, name: str) -> list[NDArray[np.floating]]:
        try:
            arrays = [
                np.load(path, mmap_mode="r", allow_pickle=False) for path in sorted(self.folder.glob(f"{name}.*.npy"))
            ]
        except (OSError, ValueError) as error:
            raise TagloomError(f"{self.folder}: is damaged ({error}). Delete this folder and run it again.") from error
        if not arrays:
            raise TagloomError(
                f"{self.folder}: is damaged ({name} has no arrays). Delete this folder and run it again."
            )
        return arrays
