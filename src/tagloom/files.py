"""Writing files that are either complete or absent, and asking whether one exists."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PARTIAL_SUFFIX = ".partial"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to. When the block ends, the file is renamed to its own name in one step.

    Readers see either the old file or the new one, and a full disk or a killed process leaves the old one unchanged.
    Every writer has its own temporary name, so two writers of one file cannot mix their bytes.
    """
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}{PARTIAL_SUFFIX}")
    try:
        yield partial
        _flush_to_disk(partial)
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink()


def _flush_to_disk(path: Path) -> None:
    """Wait until a file is on disk, so that a power cut after renaming cannot leave an empty file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def is_file(path: Path) -> bool:
    """Whether a path leads to a file; False, and no error, for a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name of 300 characters, or one with a NUL
        return False


def is_folder(path: Path) -> bool:
    """Whether a path leads to a folder; False, and no error, for a name that no folder can have."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
