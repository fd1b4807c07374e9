"""A lock on a run's folder, so that no two runs write to it at once.

The lock is the operating system's, on the file `run.lock`: it ends with its process, however that ends. A lock file
that a killed process left behind is thus no obstacle. Worker processes do not inherit the lock.
"""

import errno
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tagloom.errors import TagloomError

LOCK_FILE = "run.lock"
_POLL_SECONDS = 0.05
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_held: set[Path] = set()  # by this process: the system's locks do not tell its threads apart
_guard = threading.Lock()


class LockedError(TagloomError):
    """Another run is working in the folder."""


@contextmanager
def locked(folder: Path, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock of a folder.

    On a disk that knows no locks (some network disks) the block runs unprotected.

    Args:
        folder: Must exist.
        wait: Seconds to wait for another process to leave, before it is named in a `LockedError`.
    """
    path = folder.resolve() / LOCK_FILE
    deadline = time.monotonic() + wait
    while (file := _try_to_lock(path)) is None:
        if time.monotonic() >= deadline:
            raise LockedError(
                f"{folder}: another run is working here ({_holder(path)}). Wait until it has finished, stop it and "
                "continue with --resume, or name another --out."
            )
        time.sleep(_POLL_SECONDS)
    try:
        os.truncate(file, 0)
        os.write(file, f"process {os.getpid()} on {socket.gethostname()}, since {time.ctime()}\n".encode())
        yield
    finally:
        _release(path, file)


def _try_to_lock(path: Path) -> int | None:
    """Open the lock file and lock it; None if somebody else has."""
    with _guard:
        if path in _held:
            return None
        while True:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                if not _system_lock(file):
                    os.close(file)
                    return None
                if os.path.samestat(os.fstat(file), path.stat()):
                    _held.add(path)
                    return file
                os.close(file)  # whoever had the lock removed the file after we opened it
            except FileNotFoundError:
                os.close(file)


def _release(path: Path, file: int) -> None:
    with _guard:
        with suppress(OSError):  # while the lock is held: whoever opened it before finds it gone, and opens another
            path.unlink()
        os.close(file)
        _held.discard(path)


def _holder(path: Path) -> str:
    """Say who holds a lock, as they wrote it."""
    with _guard:
        if path in _held:
            return f"in this process, {os.getpid()}"
    try:
        text = path.read_bytes()[:200].decode(errors="replace").strip()
    except OSError:
        text = ""
    return text if text.isprintable() and text else "another process"


if sys.platform == "win32":
    import msvcrt

    def _system_lock(file: int) -> bool:
        os.lseek(file, 1 << 20, os.SEEK_SET)  # Windows lets nobody read a locked byte, so none of the text
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        os.lseek(file, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def _system_lock(file: int) -> bool:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            if error.errno not in _NO_LOCKS:
                raise
        return True
