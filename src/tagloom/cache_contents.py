"""What the caches hold, and clearing them.

Only files that have the names of Tagloom's own cached files are counted and removed, in the folders where Tagloom puts
them. Everything else is left alone, even in a cache folder.
"""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tagloom.cache_folder import EXTRACTORS, FEATURES, META_FILE, WORDS, is_leftover, read_meta
from tagloom.files import PARTIAL_SUFFIX

_NAME = re.compile(r"[0-9a-f]{32}")
_STEM = r"[0-9a-f]{32}(-[0-9a-f]{8})?"
_UNFINISHED = r"((\.[0-9a-f]{32})?\.partial)*"
_FILES = {
    FEATURES: re.compile(rf"(meta\.json|{_STEM}\.(safetensors|keys|\d+\.npy)){_UNFINISHED}"),
    EXTRACTORS: re.compile(rf"{_STEM}\.(onnx|json){_UNFINISHED}"),
    WORDS: re.compile(rf"(meta\.json|{_STEM}\.safetensors){_UNFINISHED}"),
}


@dataclass(frozen=True)
class CacheEntry:
    """The cached files of one extractor, exported network or source of word vectors.

    Attributes:
        kind: "features", "extractors" or "words".
        path: Its folder; for an exported network, the part that the names of its files share.
        about: What it belongs to.
        files: All its files.
        bytes: Their size.
        used: When it was last used, in seconds since 1970.
    """

    kind: str
    path: Path
    about: str
    files: tuple[Path, ...]
    bytes: int
    used: float


@dataclass(frozen=True)
class Cleared:
    """What was removed.

    Attributes:
        entries: How many entries.
        bytes: How much they took.
        kept: Files that could not be removed: unfinished ones that a run is writing, or ones that the system protects.
    """

    entries: int
    bytes: int
    kept: tuple[Path, ...]


def list_cache(root: Path) -> list[CacheEntry]:
    """List what a cache folder holds, the largest entries of each kind first."""
    found = [*_folders(root, FEATURES), *_exported(root), *_folders(root, WORDS)]
    order = {kind: number for number, kind in enumerate(_FILES)}
    return sorted(found, key=lambda entry: (order[entry.kind], -entry.bytes, entry.path))


def clear_cache(entries: Iterable[CacheEntry]) -> Cleared:
    """Remove the files of some entries.

    A run that uses them goes on: it has mapped what it reads, and computes again what it can no longer find. Files that
    are being written stay.
    """
    removed, freed, kept = 0, 0, list[Path]()
    for entry in entries:
        left = [path for path in sorted(entry.files, key=_keys_first) if not _remove(path)]
        freed += entry.bytes - sum(_size(path) for path in left)
        removed += not left
        kept += left
        if entry.kind != EXTRACTORS:
            with suppress(OSError):  # not empty: something in it is not ours, or is being written
                entry.path.rmdir()
    return Cleared(removed, freed, tuple(kept))


def _folders(root: Path, kind: str) -> Iterator[CacheEntry]:
    """List the entries that have a folder of their own."""
    for folder in _listed(root / kind):
        ours = _NAME.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink()
        if ours and (files := _ours(folder, kind)):
            yield _entry(kind, folder, files, [folder], read_meta(folder / META_FILE))


def _exported(root: Path) -> Iterator[CacheEntry]:
    """List the exported networks: the files of an extractor have its name."""
    folder = root / EXTRACTORS
    by_name: dict[str, list[Path]] = {}
    for path in _ours(folder, EXTRACTORS):
        by_name.setdefault(path.name[:32], []).append(path)
    for name, files in by_name.items():
        yield _entry(EXTRACTORS, folder / name, files, files, read_meta(folder / f"{name}.json"))


def _entry(kind: str, path: Path, files: list[Path], touched: list[Path], meta: dict[str, Any]) -> CacheEntry:
    """Make an entry that was last used when one of the paths was last touched."""
    used = max(map(_changed, touched))
    return CacheEntry(kind, path, _about(meta), tuple(files), sum(map(_size, files)), used)


def _about(meta: dict[str, Any]) -> str:
    """Describe what an entry belongs to in a few words."""
    if "source" in meta:
        return str(meta["source"])
    if "backbone" not in meta:
        return "unknown"
    summary = meta.get("summary")
    parts = [f"{meta['backbone']} at {meta.get('size')} px"]
    parts += [", ".join(map(str, summary))] if isinstance(summary, list) else []
    parts += [str(meta["view"])] if meta.get("view") else []
    return "; ".join(parts)


def _ours(folder: Path, kind: str) -> list[Path]:
    """List the regular files in a folder that have names of ours; links are not followed."""
    names = _FILES[kind]
    return [path for path in _listed(folder) if names.fullmatch(path.name) and path.is_file() and not path.is_symlink()]


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return time.time()  # it has just been removed


def _remove(path: Path) -> bool:
    """Remove a file; say whether it is gone."""
    try:
        if path.name.endswith(PARTIAL_SUFFIX) and not is_leftover(path):
            return False
        path.unlink()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _keys_first(path: Path) -> tuple[bool, str]:
    """Order the files of an old shard so that it is no shard any more before its arrays go."""
    return path.suffix != ".keys", path.name
