"""Images inside other files: zip and tar archives, and Parquet tables with the pictures' bytes.

Such files come from strangers. Nothing is unpacked to disk, so names that lead elsewhere do no harm. A member that
cannot be read is given as an `ImageError` in its place, so that no image is lost silently. Links are not followed, and
how much a file may grow when it is read is limited.
"""

import bz2
import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple

from tagloom.data.images import MAX_FILE_BYTES, has_image_suffix
from tagloom.data.packed.parquet_file import open_parquet, picture_column
from tagloom.data.packed.places import PARQUET_SUFFIXES, Place
from tagloom.data.reading import Encoded
from tagloom.data.regular_file import open_regular
from tagloom.errors import DataError, ImageError
from tagloom.wording import first_line, shown

TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2")
MOST_GROWTH = 50
"""How many times its size a compressed archive may grow. Images hardly shrink; an archive made to fill memory or to
keep a core busy for days grows a thousand times."""
MAX_NAME = 4096
_ENCRYPTED = 0x1
_READ_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)  # others can ask for 4 GiB of memory


class Member(NamedTuple):
    """An image inside a file.

    Attributes:
        name: Its name there.
        read: Gives its bytes, or what is wrong with it. Call it before you ask for the next member, or not at all.
    """

    name: str
    read: Callable[[], Encoded | ImageError]


def is_container(path: Place) -> bool:
    """Whether a file holds images, by its name.

    >>> is_container(Path("a.zip")), is_container(Path("b.TAR.GZ")), is_container(Path("c.jpg"))
    (True, True, False)
    """
    return str(path).lower().endswith((".zip", *TAR_SUFFIXES, *PARQUET_SUFFIXES))


def members_of(path: Place) -> Iterator[Member]:
    """Give the images of an archive or a Parquet file in their order, recognised by suffix in an archive.

    Raises:
        DataError: If the file cannot be opened, or holds no image.
    """
    name = str(path).lower()
    if name.endswith(PARQUET_SUFFIXES):
        members = _parquet_members(path)
    elif isinstance(path, str):
        raise DataError(f"{path}: at an address, only packed data can be read: .parquet files. Fetch the file first.")
    else:
        members = _zip_members(path) if name.endswith(".zip") else _tar_members(path)
    first = next(members, None)
    if first is None:
        raise DataError(f"{path}: holds no image. Its members are recognised by their suffix, such as .jpg.")
    yield first
    yield from members


def count_members(path: Place) -> int:
    """Count what `members_of` gives; of a Parquet file from its footer, so that its pictures are read only once."""
    if str(path).lower().endswith(PARQUET_SUFFIXES):
        with _open_pictures(path) as file:
            return int(file.metadata.num_rows)
    return sum(1 for _ in members_of(path))


def _zip_members(path: Path) -> Iterator[Member]:
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open_regular(path))
            archive = stack.enter_context(zipfile.ZipFile(file))
            left = _allowed(file)
        except Exception as error:  # a hostile directory can raise anything
            raise _cannot_open(path, "a zip archive", error) from error
        for info in archive.infolist():
            if info.is_dir() or not has_image_suffix(info.filename):
                continue
            left -= min(info.file_size, MAX_FILE_BYTES)
            refusal = _refused_in_zip(info, left)
            yield _member(path, info.filename, refusal, lambda info=info: _read_zipped(archive, info))  # type: ignore[misc]


def _refused_in_zip(info: zipfile.ZipInfo, left: int) -> str | None:
    if info.flag_bits & _ENCRYPTED:
        return "is encrypted. Unpack the archive, and give the folder."
    if info.compress_type not in _READ_METHODS:
        return "is compressed in a way that is not read here. Unpack the archive, and give the folder."
    if left < 0:
        return f"its archive grows to more than {MOST_GROWTH} times its size. If you trust it, unpack it yourself."
    return None


def _read_zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as stream:
        return stream.read(MAX_FILE_BYTES + 1)


def _tar_members(path: Path) -> Iterator[Member]:
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open_regular(path))
            # A stream is read once from front to back, so that compressed archives need no second pass.
            stream = _Limited(_unpacked(file, path.name.lower()), _allowed(file))
            archive = stack.enter_context(tarfile.open(fileobj=stream, mode="r|", errorlevel=0))
        except Exception as error:
            raise _cannot_open(path, "a tar archive", error) from error
        last = ""
        while True:
            try:
                info = archive.next()
                archive.members.clear()  # type: ignore[attr-defined]  # it would keep every member
            except Exception as error:  # noqa: BLE001, hostile headers raise anything
                yield _damaged(path, last, error)
                return
            if info is None:
                if stream.cut_off():
                    yield _damaged(path, last, EOFError("it has no end"))
                return
            last = info.name
            if info.isdir() or not has_image_suffix(info.name):
                continue
            yield _member(path, info.name, _refused_in_tar(info), lambda info=info: _read_tarred(archive, info))  # type: ignore[misc]


def _refused_in_tar(info: tarfile.TarInfo) -> str | None:
    if info.issym() or info.islnk():
        return f"is a link to {shown(info.linkname)}, and links in archives are not followed."
    if not info.isreg() or info.issparse():
        return "is not a regular file."
    return None


def _read_tarred(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    if info.size > MAX_FILE_BYTES:
        return bytes(MAX_FILE_BYTES + 1)
    stream = archive.extractfile(info)
    data = b"" if stream is None else stream.read()
    if len(data) != info.size:
        raise EOFError("the archive ends inside of it")
    return data


def _unpacked(file: IO[bytes], name: str) -> IO[bytes]:
    if name.endswith(("gz", "tgz")):
        return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
    return bz2.BZ2File(file) if name.endswith("bz2") else file


class _Limited(io.RawIOBase):
    """Reads at most so many bytes of a stream, and knows how it ended."""

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self._stream = stream
        self._left = most
        self._last = b""

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise OSError(f"it grows to more than {MOST_GROWTH} times its size; if you trust it, unpack it yourself")
        self._last = (self._last + data)[-tarfile.BLOCKSIZE :] if data else self._last
        return data

    def cut_off(self) -> bool:
        """Whether what was read does not end as tar archives do, with a block of zeros."""
        return self._last.count(0) != tarfile.BLOCKSIZE


def _parquet_members(path: Place) -> Iterator[Member]:
    with _open_pictures(path) as file:
        column = picture_column(str(path), file.schema_arrow)
        row = 0
        batches = file.iter_batches(1, columns=[column])  # more at once could be any amount of memory
        while True:
            try:
                batch = next(batches, None)
                cell = None if batch is None else batch.column(0)[0].as_py()
            except Exception as error:  # noqa: BLE001, pyarrow raises many types on a damaged file
                yield _damaged(path, f"row {row}", error)
                return
            if batch is None:
                return
            named, data = (cell.get("path"), cell.get("bytes")) if isinstance(cell, dict) else (None, cell)
            refusal = None if isinstance(data, bytes) else "holds no bytes of a picture. Give pictures, not only paths."
            name = os.fspath(named) if isinstance(named, str) and named else str(row)
            yield _member(path, name, refusal, lambda data=data: data)  # type: ignore[misc]
            row += 1


def _open_pictures(path: Place) -> AbstractContextManager[Any]:
    return open_parquet(str(path), "Reading pictures from Parquet", buffer_size=2**20)


def _member(path: Place, inner: str, refusal: str | None, read: Callable[[], bytes]) -> Member:
    inner = inner[:MAX_NAME]
    name = f"{path}/{inner}"

    def read_safely() -> Encoded | ImageError:
        if refusal is not None:
            return ImageError(name, "format", refusal)
        try:
            data = read()
        except Exception as error:  # noqa: BLE001, from zlib.error to NotImplementedError
            return ImageError(name, "broken", f"cannot be read from its archive ({first_line(error)}).")
        if len(data) > MAX_FILE_BYTES:
            return ImageError(name, "oversized", f"is larger than {MAX_FILE_BYTES:,} bytes. Make it smaller.")
        return Encoded(name, data)

    return Member(inner, read_safely)


def _damaged(path: Place, last: str, error: Exception) -> Member:
    """Stand for all that follows in a file whose rest cannot be read."""
    where = f" after {shown(last)}" if last else ""
    finding = f"is damaged{where}, so what follows there was not read ({first_line(error)}). Make the file again."
    return Member("(damaged)", lambda: ImageError(str(path), "broken", finding))


def _allowed(file: IO[bytes]) -> int:
    return MAX_FILE_BYTES + MOST_GROWTH * os.fstat(file.fileno()).st_size


def _cannot_open(path: Path, what: str, error: Exception) -> DataError:
    if isinstance(error, FileNotFoundError):
        return DataError(f"{path}: no such file.")
    return DataError(f"{path}: cannot be opened as {what} ({first_line(error)}). Make it again, or unpack it.")
