"""WebDataset tars: samples of files with one key, such as `0007.jpg` and `0007.json`.

A tar is walked once, from header to header. Afterwards an image is read from where it lies, and nothing is unpacked.
"""

import json
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, Any, NamedTuple

import numpy as np

from tagloom.data.images import IMAGE_SUFFIXES, MAX_FILE_BYTES
from tagloom.data.packed.places import absolute_place
from tagloom.data.regular_file import open_regular
from tagloom.errors import DataError, ImageError
from tagloom.wording import first_line, shown

LABEL_SUFFIXES = ("json", "cls", "txt")
"""Where the labels of a sample are, the best first."""
MAX_SAMPLES = 100_000_000
MAX_NAME = 4096
MAX_LABEL_BYTES = 2**20
_MAX_HEADER_BYTES = 2**24


class Sample(NamedTuple):
    """An image in a tar, and the label files next to it.

    Attributes:
        name: What the tar calls the image.
        start: Where its bytes begin.
        size: How many bytes it has.
        labels: The label files by suffix.
    """

    name: str
    start: int
    size: int
    labels: dict[str, bytes]


class TarImages:
    """The images of tars, numbered through all of them: an `ImageStore` whose groups are whole tars."""

    def __init__(self, tars: Sequence[str], samples: Sequence[Sequence[tuple[int, int]]]) -> None:
        """Take for each tar where its images begin and how many bytes they have."""
        self._tars = list(tars)
        counts = np.array([len(found) for found in samples], np.int64)
        self._places = np.array([place for found in samples for place in found], np.int64).reshape(-1, 2)
        self.group_starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        # An image is read by itself, so that a group costs nothing and all are shuffled among themselves.
        self.group_bytes = np.zeros(len(tars), np.int64)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tars": list(map(absolute_place, self._tars))}  # for a process in another folder

    def file_of(self, number: int) -> str:
        """Name the tar that holds an image."""
        return self._tars[int(np.searchsorted(self.group_starts, number, side="right")) - 1]

    def read(self, number: int, name: str) -> bytes:
        """Read an image; see `ImageStore`."""
        start, size = self._places[number].tolist()
        if size > MAX_FILE_BYTES:
            raise ImageError(name, "oversized", f"is larger than {MAX_FILE_BYTES:,} bytes. Make it smaller.")
        try:
            with open_regular(self.file_of(number)) as file:
                file.seek(start)
                data = file.read(size)
        except OSError as error:
            raise ImageError(name, "missing", f"cannot be read ({first_line(error)}).") from error
        if len(data) != size:
            raise ImageError(name, "broken", "its tar ends inside of it. Make the tar again.")
        return data


def samples_of(tar: str) -> Iterator[Sample]:
    """Give the samples of a tar that have an image, in order.

    Raises:
        DataError: If the tar is damaged or cannot be read without unpacking it.
    """
    try:
        with open_regular(tar) as file, _open_tar(file) as archive:
            key, image, labels = "", None, dict[str, bytes]()
            for info in _members(archive):
                found, _, suffix = _split_key(info.name)
                if found != key:
                    if image is not None:
                        yield Sample(*image, labels)
                    key, image, labels = found, None, {}
                if f".{suffix.rpartition('.')[2]}" in IMAGE_SUFFIXES:
                    if image is not None:
                        raise DataError(f"{tar}: {shown(info.name)} is a second image of one key. Give it its own.")
                    image = info.name, info.offset_data, info.size
                elif suffix in LABEL_SUFFIXES:
                    labels[suffix] = _label_file(tar, archive, info)
            if image is not None:
                yield Sample(*image, labels)
    except DataError:
        raise
    except Exception as error:  # hostile headers raise anything
        packed = " Uncompress it first." if tar.endswith("gz") else " Make it again."
        raise DataError(f"{tar}: cannot be read as a tar ({first_line(error)}).{packed}") from error


def labels_of(tar: str, sample: Sample, field: str | None, usual_fields: Sequence[str]) -> Any:
    """Give the labels of a sample as a cell of a sheet: a list, or text; None if it has none.

    Args:
        tar: The tar, for messages.
        sample: The sample.
        field: The field of its JSON that holds the labels; None for the first that has a usual name.
        usual_fields: These names.
    """
    suffix = next((suffix for suffix in LABEL_SUFFIXES if suffix in sample.labels), None)
    if suffix is None:
        return None
    where = f"{tar}: the labels of {shown(sample.name)}"
    try:
        text = sample.labels[suffix].decode("utf-8-sig").strip()
        if suffix != "json":
            return [line.strip() for line in text.splitlines()] if "\n" in text else text
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} cannot be read ({first_line(error)}). Correct them.") from error
    if isinstance(content, dict):
        names = [field] if field is not None else [name for name in usual_fields if name in content]
        if not names or names[0] not in content:
            found = ", ".join(map(shown, list(content)[:8])) or "none"
            raise DataError(
                f"{where} are in no known field of its JSON. Fields: {found}. Choose one with label_column=NAME "
                "(--data-option label_column=NAME)."
            )
        content = content[names[0]]
    if content is None or isinstance(content, str | int) or _is_list_of_names(content):
        return content
    raise DataError(f"{where} are {shown(content)}. Write a list of names.")


def _is_list_of_names(content: object) -> bool:
    return isinstance(content, list) and all(isinstance(name, str | int) for name in content)


def _open_tar(file: IO[bytes]) -> tarfile.TarFile:
    return tarfile.open(fileobj=_SmallReads(file), mode="r:")  # type: ignore[call-overload, no-any-return]


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    count = 0
    while (info := archive.next()) is not None:
        archive.members.clear()  # type: ignore[attr-defined]  # it would keep every member
        count += 1
        if count > 4 * MAX_SAMPLES:
            raise OSError(f"it has more than {4 * MAX_SAMPLES:,} members")
        if info.size < 0:  # which leads back to where it was read, again and again
            raise OSError(f"a header claims {info.size:,} bytes")
        if info.isreg() and not info.issparse() and len(info.name) <= MAX_NAME and "\0" not in info.name:
            yield info  # links are not followed


def _split_key(name: str) -> tuple[str, str, str]:
    """Split a member's name at the first dot of its last part, as WebDataset does.

    >>> _split_key("train/0007.seg.png")
    ('train/0007', '.', 'seg.png')
    """
    folder, slash, last = name.rpartition("/")
    stem, dot, suffix = last.partition(".")
    return f"{folder}{slash}{stem}", dot, suffix.lower()


def _label_file(tar: str, archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    if info.size > MAX_LABEL_BYTES:
        raise DataError(f"{tar}: {shown(info.name)} has {info.size:,} bytes, more than labels need.")
    data = b""
    with suppress(AttributeError):  # None for what is no file
        data = archive.extractfile(info).read()  # type: ignore[union-attr]
    if len(data) != info.size:
        raise DataError(f"{tar}: ends inside of {shown(info.name)}. Make it again.")
    return data


class _SmallReads:
    """A file of which no header can ask for more than a few megabytes at a time."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_HEADER_BYTES:
            raise OSError(f"a header claims {size:,} bytes")
        return self._file.read(size)
