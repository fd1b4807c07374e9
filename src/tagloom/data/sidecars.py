"""Sidecars: `photo.jpg.xmp`, as darktable and digiKam name them, or `photo.xmp`, as Lightroom does."""

import shutil
from pathlib import Path

from tagloom.data.images import IMAGE_SUFFIXES
from tagloom.data.regular_file import is_regular, read_regular
from tagloom.errors import DataError
from tagloom.files import whole_file
from tagloom.xmp.document import MAX_BYTES

SUFFIX = ".xmp"
_RAW_SUFFIXES = (
    *(".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dng", ".erf", ".heic", ".heif", ".iiq", ".jxl", ".kdc", ".mef", ".mrw"),
    *(".nef", ".nrw", ".orf", ".pef", ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f"),
)


def sidecars_of(photo: Path) -> list[Path]:
    """List the sidecars that a photo has, the one under its whole name first."""
    return [path for path in (_long_name(photo), photo.with_suffix(SUFFIX)) if is_regular(path)]


def own_sidecar(photo: Path) -> Path:
    """Give the sidecar to write to, which may not exist yet.

    It is `photo.jpg.xmp`, unless there is only `photo.xmp` and no other image or raw file that it may belong to.
    """
    long, short = _long_name(photo), photo.with_suffix(SUFFIX)
    return short if not is_regular(long) and is_regular(short) and not _has_twin(photo) else long


def editable_sidecars(photo: Path) -> list[Path]:
    """List the sidecars of a photo that belong to no other file."""
    long = _long_name(photo)
    return [path for path in sidecars_of(photo) if path == long or not _has_twin(photo)]


def read_sidecar(path: Path) -> bytes:
    """Read the bytes of a sidecar. An error begins with its path."""
    try:
        data = read_regular(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}).") from error
    if not data.strip():
        raise DataError(f"{path}: is empty. Delete it, or write it again with the program that made it.")
    return data


def write_sidecar(path: Path, data: bytes) -> None:
    """Write a sidecar, whole or not at all. A link stays a link, and permissions stay as they are."""
    target = path.resolve()
    with whole_file(target) as partial:
        partial.write_bytes(data)
        if target.exists():
            shutil.copymode(target, partial)


def _long_name(photo: Path) -> Path:
    return photo.with_name(photo.name + SUFFIX)


def _has_twin(photo: Path) -> bool:
    """Whether another image, or a raw file, has the same name but for its suffix."""
    suffixes = {form for suffix in (*IMAGE_SUFFIXES, *_RAW_SUFFIXES) for form in (suffix, suffix.upper())}
    return any(is_regular(photo.with_suffix(suffix)) for suffix in suffixes - {photo.suffix})
