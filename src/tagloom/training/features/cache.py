"""The feature cache: the summaries of a frozen backbone, computed once per image and memory-mapped from disk.

A cache folder belongs to one extractor (weights, preprocessing, view, summary) and holds shards. A shard is one `.npy`
file per summary tensor and a `.keys` file that names its images by content. The keys are written last and by renaming,
so a killed process leaves at most some files that are never read, and two processes cannot harm each other.
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
    """The summaries of a list of images, read from shards on demand.

    Args:
        shards: The arrays of each shard, one per summary tensor, (images of the shard, …) each.
        shard_of: (images,) the shard that holds each image.
        row_of: (images,) its row there.
    """

    def __init__(
        self, shards: list[list[NDArray[np.floating]]], shard_of: NDArray[np.int64], row_of: NDArray[np.int64]
    ) -> None:
        self._shards = shards
        self._shard_of = shard_of
        self._row_of = row_of

    def __len__(self) -> int:
        return len(self._shard_of)

    def select(self, rows: NDArray[np.int64]) -> "CachedFeatures":
        """Give the features of some images only, in the order given."""
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
        shard_of, row_of = self._shard_of[rows], self._row_of[rows]
        outputs: list[NDArray[np.floating]] = []
        for tensor, example in enumerate(self._shards[0] if self._shards else []):
            output = np.empty((len(rows), *example.shape[1:]), example.dtype)
            for shard in np.unique(shard_of):
                chosen = shard_of == shard
                output[chosen] = self._shards[shard][tensor][row_of[chosen]]
            outputs.append(output)
        return outputs


class FeatureCache:
    """The shards of one extractor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._found: dict[str, tuple[int, int]] = {}  # shard and row of each key
        self._names: list[str] = []
        for path in sorted(folder.glob("*.keys")):
            self._register(path.stem, path.read_text(encoding="ascii").split())

    def missing(self, keys: Sequence[str]) -> list[str]:
        """List the keys that the cache does not hold yet, each once, in order."""
        return [key for key in dict.fromkeys(keys) if key not in self._found]

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
                f"{self.folder}: features could not be written ({error}). What was written before is untouched: free "
                "some space, or name another folder with --cache or TAGLOOM_CACHE, and run it again."
            ) from error
        self._register(name, list(keys))

    def view(self, keys: Sequence[str]) -> CachedFeatures:
        """Give the features of images by key, in the order given; the cache must hold all keys."""
        found = [self._found[key] for key in keys]
        used = sorted({shard for shard, _ in found})
        index_of = {shard: index for index, shard in enumerate(used)}
        return CachedFeatures(
            [self._open(self._names[shard]) for shard in used],
            np.array([index_of[shard] for shard, _ in found], np.int64),
            np.array([row for _, row in found], np.int64),
        )

    def _register(self, name: str, keys: list[str]) -> None:
        self._names.append(name)
        for row, key in enumerate(keys):
            self._found.setdefault(key, (len(self._names) - 1, row))

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
