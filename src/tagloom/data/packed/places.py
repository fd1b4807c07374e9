"""Where shards are: on this disk, or at an address that fsspec knows, such as `s3://bucket/shards`."""

import re
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from tagloom.data.regular_file import open_regular
from tagloom.errors import DataError, MissingExtraError
from tagloom.wording import first_line, listed, shown

PARQUET_SUFFIXES = (".parquet", ".pq")
INNER_FOLDER = "data"
"""Where data sets of the Hugging Face hub keep their shards."""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(::[A-Za-z][A-Za-z0-9+.-]+)*://")
_NUMBERED = re.compile(r"(?P<split>.+?)-\d{3,}(-of-\d+)?(-[0-9a-f]{8,})?")


READ_AHEAD_BYTES = 2**16
"""What is fetched from an address beyond what is asked for: the labels of a row group lie next to each other, and its
pictures, which lie between them and the next labels, are not to be fetched with them."""
Place: TypeAlias = Path | str
"""A path on this disk, or an address as text."""


def is_address(place: str) -> bool:
    r"""Whether a place is an address and not a path on this disk.

    >>> is_address("s3://bucket/shards"), is_address("shards/train-00000.parquet"), is_address("C:\\shards")
    (True, False, False)
    """
    return _ADDRESS.match(place) is not None


def absolute_place(place: str) -> str:
    """Give a place so that it means the same from any working directory: an address as it is, or an absolute path."""
    return place if is_address(place) else str(Path(place).resolve())


def is_parquet_name(name: str) -> bool:
    """Whether a file is a Parquet file, by its name."""
    return name.lower().endswith(PARQUET_SUFFIXES) and not name.startswith(".")


def find_shards(place: str, split: str | None = None) -> list[str]:
    """Give the Parquet files of a place in their order: the file itself, or those in a folder or in its `data/`.

    Args:
        place: A path or an address.
        split: Only files whose names begin with it, as in `train-00000.parquet`. Files of several splits are never
            mixed: then one must be chosen.

    Raises:
        DataError: If there is none, or it is not clear which are meant.
    """
    if is_parquet_name(place.rpartition("/")[2]) and (is_address(place) or Path(place).is_file()):
        return [place]
    found = shards_in(place)
    if not found:
        raise DataError(f"{place}: holds no .parquet file. Give a folder that tagloom pack wrote, or a .parquet file.")
    splits: dict[str, list[str]] = {}
    for file in found:
        splits.setdefault(split_of(file), []).append(file)
    if split is None and len(splits) == 1:
        return found
    if split not in splits:
        asked = "several splits" if split is None else f"no split {shown(split)}"
        raise DataError(
            f"{place}: holds {asked}. Found: {listed(map(shown, sorted(splits)))}. Choose one with {place}#NAME."
        )
    return splits[split]


def split_of(file: str) -> str:
    """Tell the split of a shard by its name; a name without a number is a split of its own.

    >>> split_of("a/train-00000-of-00005.parquet"), split_of("a/val-000.parquet"), split_of("a/labels.parquet")
    ('train', 'val', 'labels')
    """
    stem = file.rpartition("/")[2].rpartition(".")[0]
    numbered = _NUMBERED.fullmatch(stem)
    return numbered["split"] if numbered else stem


def holds_shards(folder: Path) -> bool:
    """Whether a path is a folder with Parquet files, in itself or in its `data/`."""
    return folder.is_dir() and bool(shards_in(str(folder)))


def shards_in(folder: str) -> list[str]:
    """List the Parquet files of a folder or an address, in itself or else in its `data/`."""
    return _in_folder(folder) or _in_folder(f"{folder.rstrip('/')}/{INNER_FOLDER}")


def open_shard(place: str) -> BinaryIO:
    """Open a file to read its bytes. At an address, only what is asked for is fetched, where the other side can.

    Raises:
        OSError: If it cannot be opened; fsspec's file systems raise other errors as well.
    """
    if not is_address(place):
        return open_regular(place)
    system, path = _file_system(place)
    return cast(BinaryIO, system.open(path, "rb", block_size=READ_AHEAD_BYTES))


def _in_folder(folder: str) -> list[str]:
    if not is_address(folder):
        path = Path(folder)
        return sorted(str(file) for file in path.iterdir() if _is_shard(file)) if path.is_dir() else []
    system, inner = _file_system(folder)
    try:
        names = [str(entry["name"]) for entry in system.ls(inner, detail=True) if entry.get("type") == "file"]
    except FileNotFoundError:
        return []
    except Exception as error:  # each file system raises its own
        raise DataError(f"{folder}: cannot be listed ({first_line(error)}). Check the address.") from error
    return sorted(str(system.unstrip_protocol(name)) for name in names if is_parquet_name(name.rpartition("/")[2]))


def _is_shard(file: Path) -> bool:
    return is_parquet_name(file.name) and file.is_file()


def _file_system(place: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise MissingExtraError("Reading from an address", "remote") from error
    try:
        system, path = url_to_fs(place)
    except ImportError as error:  # fsspec names the package that knows this kind of address
        raise DataError(f"{place}: {first_line(error)}") from error
    except Exception as error:
        raise DataError(f"{place}: is not an address that fsspec knows ({first_line(error)}).") from error
    return system, str(path)
