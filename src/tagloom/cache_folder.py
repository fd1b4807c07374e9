"""What all caches share: where they are, checksums of their files, what each belongs to and when it was last used.

| folder | holds |
| --- | --- |
| `features/EXTRACTOR/` | summaries of images, by extractor |
| `extractors/` | exported networks that compute them |
| `words/SOURCE/` | vectors of labels, by source |

A cached file's name ends with the checksum of its bytes, so that a damaged file is never believed. Damage here is an
accident (a bad disk, a power cut), so CRC-32 is enough, and it is fast: about 3 GB/s.
"""

import json
import os
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tagloom.files import PARTIAL_SUFFIX, whole_file

FEATURES, EXTRACTORS, WORDS = "features", "extractors", "words"
KINDS = (FEATURES, EXTRACTORS, WORDS)
META_FILE = "meta.json"
CHUNK_BYTES = 1 << 20
MAX_META_BYTES = 1 << 20
LEFTOVER_SECONDS = 24 * 3600.0
"""A file that is still unfinished after a day belongs to a process that was killed."""


def default_cache_folder() -> Path:
    """Return the folder for caches: $TAGLOOM_CACHE, or `tagloom` in the user's cache folder."""
    named = os.environ.get("TAGLOOM_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tagloom"


def file_checksum(path: Path) -> int:
    """Give the CRC-32 of a file's bytes."""
    found, buffer = 0, bytearray(CHUNK_BYTES)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            found = zlib.crc32(memoryview(buffer)[:count], found)
    return found


def name_with_checksum(stem: str, checksum: int, suffix: str) -> str:
    """Name a cached file.

    >>> name_with_checksum("abc", 255, ".onnx")
    'abc-000000ff.onnx'
    """
    return f"{stem}-{checksum:08x}{suffix}"


def is_intact(path: Path) -> bool:
    """Read a file and say whether its bytes are those that its name promises."""
    return path.stem.rpartition("-")[2] == f"{file_checksum(path):08x}"


def write_meta(path: Path, about: Mapping[str, Any]) -> None:
    """Note once what a cache belongs to. It only informs people, so a failure is ignored."""
    with suppress(OSError):
        if not path.exists():
            with whole_file(path) as partial:
                partial.write_text(json.dumps(dict(about), ensure_ascii=False), encoding="utf-8")


def read_meta(path: Path) -> dict[str, Any]:
    """Read what a cache belongs to; nothing if nobody noted it, or the note is damaged."""
    with suppress(OSError, ValueError, RecursionError):
        if path.stat().st_size <= MAX_META_BYTES:
            found = json.loads(path.read_text(encoding="utf-8"))
            return found if isinstance(found, dict) else {}
    return {}


def mark_used(path: Path) -> None:
    """Note that a cache is used now: its time of change is when it was last used."""
    with suppress(OSError):
        os.utime(path)


def remove_leftovers(folder: Path, others: Iterable[Path] = ()) -> None:
    """Remove the unfinished files in a folder, and others, whose writers must have been killed."""
    for path in (*folder.glob(f"*{PARTIAL_SUFFIX}"), *others):
        with suppress(OSError):
            if is_leftover(path):
                path.unlink()


def is_leftover(path: Path) -> bool:
    """Whether an unfinished file is so old that nobody can still be writing it."""
    return time.time() - path.stat().st_mtime > LEFTOVER_SECONDS
