"""Files that are whole or not there."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give another name to write to; only once that is done does the file appear under its own, in place of any other.

    Whoever reads sees the file before or the file after, and a full disk or a killed process leaves the one before.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink()
