"""Writing files that are either complete or absent, and asking whether one exists."""

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PARTIAL_SUFFIX = ".partial"
_PARTIAL_NAME = re.compile(rf".+\.[0-9a-f]{{32}}{re.escape(PARTIAL_SUFFIX)}")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to. When the block ends, the file is renamed to its own name in one step.

    Readers see either the old file or the new one, and a full disk, a killed process or a power cut leaves the old one
    unchanged. Every writer has its own temporary name, so two writers of one file cannot mix their bytes. An `OSError`
    names the file, which the system leaves out where writing fails.
    """
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}{PARTIAL_SUFFIX}")
    try:
        yield partial
        _flush_file(partial)
        partial.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            partial.unlink()


def remove_partial_files(folder: Path) -> None:
    """Delete what killed writers left in a folder. Call it only where nobody else is writing."""
    if folder.is_dir():
        for path in folder.iterdir():
            if _PARTIAL_NAME.fullmatch(path.name):
                with suppress(OSError):
                    path.unlink()


def _flush_file(path: Path) -> None:
    """Wait until a file is on disk, so that a power cut after renaming cannot leave an empty file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """Wait until a renaming is on disk, where the system can: Windows opens no folders, some disks flush none."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


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
