"""The backbone as a cached ONNX file, so that it is exported once per extractor and machine."""

import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tagloom.cache_folder import (
    file_checksum,
    is_intact,
    mark_used,
    name_with_checksum,
    remove_leftovers,
    write_meta,
)
from tagloom.errors import TaggerError, TagloomError
from tagloom.files import PARTIAL_SUFFIX
from tagloom.models.network import Extractor
from tagloom.models.onnx_export import export_onnx
from tagloom.tagger.onnx_runner import OnnxNetwork

SUFFIX = ".onnx"


def open_exported(
    extractor: Extractor,
    folder: Path,
    key: str,
    *,
    size: int,
    about: Mapping[str, Any],
    note: Callable[[str], None] = lambda text: None,
) -> OnnxNetwork | None:
    """Open the ONNX copy of a backbone, on one core per call; export it if the cache holds no intact one.

    Args:
        extractor: What runs before anything trained.
        folder: Where exported networks are cached.
        key: Names the extractor.
        size: Side of the pictures.
        about: What the extractor is, for people who look at the cache.
        note: Called with a sentence about damage.

    Returns:
        The network; None if it has no ONNX form.
    """
    for path in sorted(folder.glob(f"{key}-*{SUFFIX}")):
        with suppress(TaggerError):
            if _is_intact(path):
                mark_used(path)
                return OnnxNetwork(path, threads=1, ours=True)
        with suppress(OSError):  # if it is gone, somebody cleared the cache
            path.unlink()
            note(f"{path}: is damaged and was dropped; the backbone is exported again.")
    with suppress(TaggerError):
        return _export(extractor, folder, key, size, about)
    return None


def _is_intact(path: Path) -> bool:
    try:
        return is_intact(path)
    except OSError:
        return False


def _export(extractor: Extractor, folder: Path, key: str, size: int, about: Mapping[str, Any]) -> OnnxNetwork:
    """Write the exported network to the cache, where other runs find it, and open it."""
    # Its name is known when it is written; whoever clears the cache meanwhile leaves unfinished files alone.
    fresh = folder / f"{uuid.uuid4().hex}{SUFFIX}{PARTIAL_SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)
        write_meta(folder / f"{key}.json", about)
        export_onnx(extractor, fresh, size=size)
        network = OnnxNetwork(fresh, threads=1, ours=True)
        fresh.replace(folder / name_with_checksum(key, file_checksum(fresh), SUFFIX))
    except OSError as error:
        raise TagloomError(
            f"{folder}: cannot be written ({error}). Free some space, or name another folder with --cache."
        ) from error
    return network
