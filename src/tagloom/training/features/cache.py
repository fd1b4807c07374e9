"""The feature cache: the summaries of a frozen backbone, computed once per image and memory-mapped from disk.

A cache folder belongs to one extractor (weights, preprocessing, view, summary) and holds shards (`shard`). Several
processes can use it at once: each adds shards of its own, and reads those of the others that were complete when it
looked. A shard is checked before its first use: its size and header always, then every byte against its checksum, which
costs as much as reading it once. A damaged one is dropped with a note, and its images count as missing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagloom.cache_folder import META_FILE, mark_used, remove_leftovers, write_meta
from tagloom.errors import TagloomError
from tagloom.training.features.old_shard import KEYS_SUFFIX, OldShard, read_old_shard
from tagloom.training.features.shard import SUFFIX, DamagedShard, Shard, read_shard, write_shard
from tagloom.training.features.stored import Stored, as_read

KEEP_IN_MEMORY_BYTES = 1 << 30
READERS: dict[str, Callable[[Path], Shard | OldShard]] = {SUFFIX: read_shard, KEYS_SUFFIX: read_old_shard}


class CachedFeatures:
    """The summaries of a list of images, read from shards on demand.

    Args:
        shards: The arrays of each shard as they are stored, (images of the shard, …) each.
        shard_of: (images,) the shard that holds each image.
        row_of: (images,) its row there.
    """

    def __init__(self, shards: list[Stored], shard_of: NDArray[np.int64], row_of: NDArray[np.int64]) -> None:
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
            return as_read([array[rows] for array in self._whole])
        return as_read(self._gather(rows))

    @cached_property
    def _whole(self) -> Stored | None:
        """All summaries in memory, where they are small enough."""
        one_image = sum(array[0].nbytes for array in self._shards[0]) if self._shards else 0
        return self._gather(np.arange(len(self))) if one_image * len(self) <= KEEP_IN_MEMORY_BYTES else None

    def _gather(self, rows: NDArray[np.int64]) -> Stored:
        shard_of, row_of = self._shard_of[rows], self._row_of[rows]
        outputs: Stored = []
        for tensor, example in enumerate(self._shards[0] if self._shards else []):
            output = np.empty((len(rows), *example.shape[1:]), example.dtype)
            for shard in np.unique(shard_of):
                chosen = shard_of == shard
                output[chosen] = self._shards[shard][tensor][row_of[chosen]]
            outputs.append(output)
        return outputs


class FeatureCache:
    """The shards of one extractor.

    Args:
        folder: Their folder; it need not exist.
        about: What the extractor is, for people who look at the cache.
        note: Called with a sentence about damage that was found.
    """

    def __init__(
        self, folder: Path, about: Mapping[str, Any] | None = None, note: Callable[[str], None] = lambda text: None
    ) -> None:
        self.folder = folder
        self._about = about or {}
        self._note = note
        self._found: dict[str, tuple[Path, int]] = {}  # shard and row of each key
        self._shards: dict[Path, Shard | OldShard] = {}
        self._open: dict[Path, Stored] = {}
        self._damage: list[str] = []
        mark_used(folder)
        self._remove_leftovers()
        self._read_headers()

    def missing(self, keys: Iterable[str], pause: Callable[[], None] = lambda: None) -> list[str]:
        """List the keys that the cache does not hold, each once, in order.

        The shards of all others are checked and mapped, so that nobody can take them away any more.

        Args:
            keys: Images by content.
            pause: Called before each shard is checked; may raise.
        """
        keys = list(dict.fromkeys(keys))
        while unopened := self._shards_of(keys) - set(self._open):
            for path in sorted(unopened):
                pause()
                self._check(self._shards[path])
            self._forget(unopened - set(self._open))
        if self._damage:
            count = len(self._damage)
            which = "a damaged shard was" if count == 1 else f"{count} damaged shards were"
            self._note(f"{self.folder}: {which} dropped ({self._damage[0]}). The images in it are extracted again.")
            self._damage.clear()
        return [key for key in keys if key not in self._found]

    def add(self, keys: Sequence[str], *batches: Stored) -> None:
        """Write a shard of one or more batches, each as `as_stored` gives it."""
        try:
            shard = self._write(keys, batches)
        except OSError as error:
            raise TagloomError(
                f"{self.folder}: features could not be written ({error}). What was written before is untouched: free "
                "some space, or name another folder with --cache or TAGLOOM_CACHE, and run it again."
            ) from error
        with suppress(FileNotFoundError, DamagedShard):  # somebody was quick to clear the cache: it is still missing
            self._open[shard.path] = shard.map()
            self._register(shard)

    def view(self, keys: Sequence[str]) -> CachedFeatures:
        """Give the features of images by key, in the order given; none of them may be missing."""
        if missing := self.missing(keys):
            raise TagloomError(f"{self.folder}: the features of {len(missing)} images are missing. Run it again.")
        found = [self._found[key] for key in keys]
        used = list(dict.fromkeys(path for path, _ in found))
        index_of = {path: index for index, path in enumerate(used)}
        return CachedFeatures(
            [self._open[path] for path in used],
            np.array([index_of[path] for path, _ in found], np.int64),
            np.array([row for _, row in found], np.int64),
        )

    def _read_headers(self) -> None:
        """Find all shards that can be whole."""
        found: list[Shard | OldShard] = []
        for path in sorted(path for suffix in READERS for path in self.folder.glob(f"*{suffix}")):
            try:
                with suppress(FileNotFoundError):
                    found.append(READERS[path.suffix](path))
            except DamagedShard as damage:
                self._damage.append(f"{path.name}: {damage}")
                with suppress(OSError):
                    path.unlink()
        forms = Counter(shard.form for shard in found).most_common(1)
        for shard in found:
            if shard.form == forms[0][0]:
                self._register(shard)
            else:
                self._drop(shard, "its tensors have other shapes than those of the other shards")

    def _check(self, shard: Shard | OldShard) -> None:
        """Check and map a shard, unless it is damaged or gone."""
        try:
            with suppress(FileNotFoundError):
                self._open[shard.path] = shard.open()
        except DamagedShard as damage:
            self._drop(shard, str(damage))

    def _drop(self, shard: Shard | OldShard, why: str) -> None:
        self._damage.append(f"{shard.path.name}: {why}")
        shard.remove()

    def _forget(self, gone: set[Path]) -> None:
        """Look for the images of shards that are gone in the other shards."""
        if gone:
            left = [shard for path, shard in self._shards.items() if path not in gone]
            self._shards, self._found = {}, {}
            for shard in left:
                self._register(shard)

    def _register(self, shard: Shard | OldShard) -> None:
        self._shards[shard.path] = shard
        for row, key in enumerate(shard.keys):
            self._found.setdefault(key, (shard.path, row))

    def _shards_of(self, keys: Iterable[str]) -> set[Path]:
        return {self._found[key][0] for key in keys if key in self._found}

    def _write(self, keys: Sequence[str], batches: Sequence[Stored]) -> Shard:
        for _ in range(3):
            with suppress(FileNotFoundError):  # somebody cleared the cache, and the new folder with it
                self.folder.mkdir(parents=True, exist_ok=True)
                write_meta(self.folder / META_FILE, self._about)
                return write_shard(self.folder, keys, batches)
        self.folder.mkdir(parents=True, exist_ok=True)
        return write_shard(self.folder, keys, batches)

    def _remove_leftovers(self) -> None:
        """Remove files of processes that were killed: unfinished ones, and arrays of old shards that have no keys."""
        arrays = self.folder.glob("*.npy")
        lone = [path for path in arrays if not (self.folder / f"{path.name.partition('.')[0]}{KEYS_SUFFIX}").exists()]
        remove_leftovers(self.folder, lone)
