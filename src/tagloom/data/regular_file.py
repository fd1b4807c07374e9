"""Opening files that a table names: only regular ones, so that reading always ends.

Whoever wrote a table chose the names in it. Opening a pipe waits until somebody writes to it, and a device such as
/dev/zero never ends; both would stop a run for ever, without a word.
"""

import errno
import os
import stat
from pathlib import Path
from typing import IO, BinaryIO

# A pipe that takes the place of the file between the two checks must not make opening wait either.
_NO_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


class NotRegularError(OSError):
    """A path leads to a folder, a pipe, a device or a socket."""

    def __init__(self, path: str, mode: int) -> None:
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        super().__init__(errno.EINVAL, f"is {kind}", path)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file to read its bytes.

    Raises:
        NotRegularError: For a folder, a pipe, a device or a socket.
        OSError: If the file cannot be opened.
    """
    return open(path, "rb", opener=_open_regular)


def open_regular_text(path: str | os.PathLike[str], encoding: str, newline: str | None = None) -> IO[str]:
    """Open a regular file to read its text. Raises what `open_regular` raises."""
    return open(path, encoding=encoding, newline=newline, opener=_open_regular)


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """Read a regular file, at most one byte more than `most`, so that the caller sees that it is too large."""
    with open_regular(path) as file:
        # Python makes room for all that is asked for, so no more is asked for than the file says it has.
        asked = min(os.fstat(file.fileno()).st_size, most) + 1
        data = file.read(asked) or b""  # None: a file of /proc that has nothing to say yet
        if len(data) == asked <= most:  # it has grown, or says no size, as files of /proc do
            data += file.read(most + 1 - asked) or b""
        return data


def is_regular(path: Path) -> bool:
    """Whether a path leads to a regular file; False for names that no file can have."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _open_regular(path: str, flags: int) -> int:
    _check_mode(path, os.stat(path).st_mode)  # noqa: PTH116, half the time. Before opening: a device may notice that
    descriptor = os.open(path, flags | _NO_WAITING)
    try:
        _check_mode(path, os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_mode(path: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise NotRegularError(path, mode)
