"""Files that are whole or not there."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PARTIAL_SUFFIX = ".partial"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to; when the block ends, the file appears under its own name in one step.

    Readers see either the old file or the new one, and a full disk or a killed process leaves the old one untouched.
    Every writer has a temporary name of its own, so two writers of one file cannot mix their bytes.
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
    """Wait until a file's bytes are on the disk, so that a power cut after the renaming cannot leave an empty file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
