"""Reading Protocol Buffers messages without their schema: field numbers, numbers and bytes.

ONNX files are such messages. This is enough to look at one before anything runs it, and needs no package.
"""

from collections import defaultdict
from collections.abc import Iterator

_VARINT, _BYTES = 0, 2
_WIDTHS = {1: 8, 5: 4}  # bytes of a field of fixed width, by its kind
_MAX_VARINT_BYTES = 10
MAX_FIELDS = 2**20  # of one message, not counting those inside its fields


class Message:
    """The fields of one message, by their numbers. Nested messages are read only when they are asked for.

    Raises:
        ValueError: If the bytes are not a message.
    """

    def __init__(self, content: memoryview) -> None:
        self.size = len(content)
        self._numbers: dict[int, list[int]] = defaultdict(list)
        self._bytes: dict[int, list[memoryview]] = defaultdict(list)
        for number, (field, value, _) in enumerate(fields(content)):
            if number >= MAX_FIELDS:
                raise ValueError(f"a message has more than {MAX_FIELDS} fields")
            if isinstance(value, int):
                self._numbers[field].append(value)
            else:
                self._bytes[field].append(value)

    def __contains__(self, field: int) -> bool:
        return field in self._numbers or field in self._bytes

    def numbers(self, field: int) -> list[int]:
        """Give the signed 64-bit numbers of a field, whether they are packed or not."""
        packed = [number for content in self._bytes.get(field, ()) for number in _packed(content)]
        return [_signed(number) for number in (*self._numbers.get(field, ()), *packed)]

    def content(self, field: int) -> memoryview | None:
        """Give the bytes of a field; like every reader, take the last if it occurs twice."""
        found = self._bytes.get(field)
        return found[-1] if found else None

    def text(self, field: int) -> str:
        """Give the text of a field."""
        found = self.content(field)
        return "" if found is None else bytes(found).decode("utf-8", "replace")

    def texts(self, field: int) -> list[str]:
        """Give the texts of a repeated field."""
        return [bytes(content).decode("utf-8", "replace") for content in self._bytes.get(field, ())]

    def message(self, field: int) -> "Message | None":
        """Give a nested message; one that occurs twice is merged, as every reader does: by joining its bytes."""
        found = self._bytes.get(field)
        if not found:
            return None
        return Message(found[0] if len(found) == 1 else memoryview(b"".join(found)))

    def messages(self, field: int) -> Iterator["Message"]:
        """Give the messages of a repeated field."""
        return map(Message, self._bytes.get(field, ()))

    def count(self, field: int) -> int:
        """Count how often a field of bytes occurs."""
        return len(self._bytes.get(field, ()))


def fields(content: memoryview) -> Iterator[tuple[int, int | memoryview, memoryview]]:
    """Give the number and the value of each field of a message, and all the bytes of the field."""
    start = 0
    while start < len(content):
        begin = start
        tag, start = _varint(content, start)
        field, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, start = _varint(content, start)
            yield field, value, content[begin:start]
            continue
        if kind == _BYTES:
            length, start = _varint(content, start)
        elif kind in _WIDTHS:
            length = _WIDTHS[kind]
        else:
            raise ValueError(f"unknown kind of field {kind}")
        if length > len(content) - start:
            raise ValueError("a field is longer than its message")
        yield field, content[start : start + length], content[begin : start + length]
        start += length


def bytes_field(field: int, content: bytes) -> bytes:
    """Write a field of bytes, such as a nested message."""
    return _to_varint(field << 3 | _BYTES) + _to_varint(len(content)) + content


def number_field(field: int, number: int) -> bytes:
    """Write a field of a number that is not negative."""
    return _to_varint(field << 3 | _VARINT) + _to_varint(number)


def _to_varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _varint(content: memoryview, start: int) -> tuple[int, int]:
    """Read a number of seven bits per byte: gives it and the index after it."""
    if start < len(content) and content[start] < 0x80:  # most numbers have one byte, and this saves half the time
        return content[start], start + 1
    number = 0
    for index, byte in enumerate(content[start : start + _MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number & (2**64 - 1), start + index + 1
    raise ValueError("a number is cut off or too long")


def _packed(content: memoryview) -> Iterator[int]:
    start = 0
    while start < len(content):
        number, start = _varint(content, start)
        yield number


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number
