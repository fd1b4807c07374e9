"""A look at a Parquet file's footer before pyarrow interprets it.

pyarrow ends the whole process, without an exception that could be caught, where the statistics of a column have another
number of levels than its schema. So they are counted here first. The footer is a Thrift structure in its compact form;
nothing of it is kept.
"""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from tagloom.errors import DataError

MAX_FOOTER_BYTES = 2**28
MAGIC = b"PAR1"
_MAX_DEPTH = 32
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
# Numbers of the fields on the way from a file to the statistics of its columns, in Parquet's definition.
_ROW_GROUPS, _COLUMNS, _METADATA, _SIZE_STATISTICS, _REPETITION, _DEFINITION = 4, 1, 3, 16, 2, 3


def read_footer(stream: BinaryIO) -> bytes:
    """Read the footer of a Parquet file; empty if it has none that can be read, which pyarrow then says."""
    size = stream.seek(0, 2)
    stream.seek(max(0, size - 8))
    end = stream.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != MAGIC or not 0 < length <= min(size - 8, MAX_FOOTER_BYTES):
        return b""
    stream.seek(size - 8 - length)
    return stream.read(length)


def check_levels(place: str, footer: bytes, levels: Sequence[tuple[int, int]]) -> None:
    """Refuse a footer whose statistics do not fit its columns.

    Args:
        place: The file, for the message.
        footer: As `read_footer` gives it.
        levels: The highest repetition and definition level of each column.

    Raises:
        DataError: If they do not fit, or if the footer cannot be followed.
    """
    try:
        for number, counts in _histograms(_Compact(footer)):
            fits = number < len(levels) and all(
                count in (0, level + 1) for count, level in zip(counts, levels[number], strict=True)
            )
            if not fits:
                raise DataError(f"{place}: the statistics of its column {number + 1} do not fit it. Make it again.")
    except (IndexError, RecursionError, ValueError) as error:
        raise DataError(f"{place}: has a footer that cannot be followed. It is damaged: make it again.") from error


def _histograms(footer: "_Compact") -> Iterator[tuple[int, tuple[int, int]]]:
    """Give the numbers of columns, and how many repetition and definition levels are counted of each."""
    for field, kind in footer.fields():
        if (field, kind) != (_ROW_GROUPS, _LIST):
            footer.skip(kind)
            continue
        for _ in footer.entries(_STRUCT):
            for group_field, group_kind in footer.fields():
                if (group_field, group_kind) != (_COLUMNS, _LIST):
                    footer.skip(group_kind)
                    continue
                for number in footer.entries(_STRUCT):
                    yield number, _column_histograms(footer)


def _column_histograms(footer: "_Compact") -> tuple[int, int]:
    found = {_REPETITION: 0, _DEFINITION: 0}
    for field, kind in footer.fields():
        if (field, kind) != (_METADATA, _STRUCT):
            footer.skip(kind)
            continue
        for inner, inner_kind in footer.fields():
            if (inner, inner_kind) != (_SIZE_STATISTICS, _STRUCT):
                footer.skip(inner_kind)
                continue
            for part, part_kind in footer.fields():
                if part in found and part_kind == _LIST:
                    found[part] = footer.skip_list()
                else:
                    footer.skip(part_kind)
    return found[_REPETITION], found[_DEFINITION]


class _Compact:
    """A place in Thrift's compact form. Every generator expects what it announces to be read or skipped."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Give number and kind of each field of a structure."""
        field = 0
        while head := self.byte():
            field = field + (head >> 4) if head >> 4 else self.signed()
            yield field, head & 15

    def entries(self, kind: int) -> Iterator[int]:
        """Give the numbers of a list's entries, which must be of a kind."""
        count, found = self.list_head()
        if count and found != kind:
            raise ValueError(f"a list of kind {found}")
        yield from range(count)

    def skip(self, kind: int, depth: int = 0) -> None:
        """Pass a value."""
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        if kind in (_TRUE, _FALSE):  # a field's kind is its value
            return
        if kind == _BYTE:
            self.move(1)
        elif kind < _DOUBLE:
            self.varint()
        elif kind == _DOUBLE:
            self.move(8)
        elif kind == _BINARY:
            self.move(self.varint())
        elif kind in (_LIST, _SET):
            self.skip_list(depth)
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind == _MAP:
            self.skip_map(depth)
        else:
            raise ValueError(f"a value of kind {kind}")

    def skip_list(self, depth: int = 0) -> int:
        """Pass a list, and count its entries."""
        count, kind = self.list_head()
        for _ in range(count):
            self.skip(_BYTE if kind in (_TRUE, _FALSE) else kind, depth + 1)
        return count

    def skip_map(self, depth: int) -> None:
        """Pass a map."""
        count = self.varint()
        kinds = self.byte() if count else 0
        for _ in range(count):
            self.skip(kinds >> 4, depth + 1)
            self.skip(kinds & 15, depth + 1)

    def list_head(self) -> tuple[int, int]:
        """Read how many entries a list has, and of which kind."""
        head = self.byte()
        count = self.varint() if head >> 4 == 15 else head >> 4
        if count > len(self.data):  # an entry takes a byte at least
            raise ValueError(f"a list of {count} entries")
        return count, head & 15

    def signed(self) -> int:
        """Read a number that may be negative."""
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def varint(self) -> int:
        """Read a number of any size."""
        number = shift = 0
        while True:
            part = self.byte()
            number |= (part & 127) << shift
            if part < 128:
                return number
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def byte(self) -> int:
        """Read a byte."""
        part = self.data[self.at]
        self.at += 1
        return part

    def move(self, count: int) -> None:
        """Pass some bytes."""
        self.at += count
        if self.at > len(self.data):
            raise IndexError(self.at)
