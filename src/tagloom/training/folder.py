"""The folder of a run: what it may hold when a run starts, and who may write to it."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tagloom.errors import TagloomError
from tagloom.files import remove_partial_files
from tagloom.tagger.spec import SPEC_FILE
from tagloom.training.checkpoint import CHECKPOINT_FOLDER, NEWEST_FILE
from tagloom.training.lock import locked

# The second is of the first round that finds pseudo-labels (`training.unknown`), before there is one of the run itself.
STARTED = (f"{CHECKPOINT_FOLDER}/{NEWEST_FILE}", f"{CHECKPOINT_FOLDER}/{CHECKPOINT_FOLDER}/{NEWEST_FILE}")
LEAVING_SECONDS = 15.0  # how long a process that was asked to stop may still be saving
_DISK_ERRORS = (
    errno.EACCES,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.ENAMETOOLONG,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
)


def check_folder(out: Path, *, resume: bool, started: tuple[str, ...] = STARTED) -> None:
    """Refuse to overwrite a finished tagger, or a run that was started and is not resumed.

    Args:
        out: The run's folder.
        resume: Whether the run is resumed.
        started: Files and folders whose presence says that a run was started.
    """
    if (out / SPEC_FILE).exists():
        raise TagloomError(f"{out}: holds a finished tagger. Name another --out, or delete it first.")
    if not resume and any((out / name).exists() for name in started):
        raise TagloomError(f"{out}: holds a run that was started. Continue with --resume, or name another --out.")


@contextmanager
def open_folder(out: Path, *, resume: bool, started: tuple[str, ...] = STARTED) -> Iterator[None]:
    """Make the run's folder, unless it exists, and keep all other runs out of it. Arguments as for `check_folder`.

    Whatever an earlier process left half written is removed. An error of the disk becomes one of ours.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TagloomError(f"{out}: cannot be created ({error}). Name another --out.") from error
    with disk_errors(out), locked(out, wait=LEAVING_SECONDS if resume else 0.0):
        check_folder(out, resume=resume, started=started)  # again: another run may have worked here a moment ago
        if not resume:  # best weights without a checkpoint to continue from are of no use to this run
            shutil.rmtree(out / CHECKPOINT_FOLDER, ignore_errors=True)
        for folder in (out, out / CHECKPOINT_FOLDER):
            remove_partial_files(folder)
        yield


@contextmanager
def disk_errors(out: Path) -> Iterator[None]:
    """Turn the system's error for a full, read-only or broken disk into one that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        raise TagloomError(
            f"{error.filename or out}: cannot be written or read ({error.strerror}). Whatever was saved before is "
            f"untouched. Make room on the disk, check its permissions, or name another --out; a run that was started "
            f"continues with --resume --out {out}"
        ) from error
