"""The bytes of an XMP document as UTF-8, and back: byte-order mark and encoding stay as they were."""

import codecs
import re
from typing import NamedTuple

from tagloom.errors import DataError
from tagloom.wording import shown

# Longest first: the mark of UTF-32 begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_STARTS = (
    (b"<\0\0\0", "utf-32-le"),
    (b"\0\0\0<", "utf-32-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)
_DECLARED = re.compile(rb"""<\?xml[^>]{0,80}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
# A closed table: Python knows codecs that unpack archives, and none of those may be named by a file.
_SINGLE_BYTE = {
    **dict.fromkeys(("us-ascii", "ascii"), "ascii"),
    **dict.fromkeys(("iso-8859-1", "latin1", "latin-1"), "iso-8859-1"),
    **dict.fromkeys(("windows-1252", "cp1252"), "cp1252"),
}


class Encoded(NamedTuple):
    """How a document is encoded: its byte-order mark, which may be empty, and its codec."""

    mark: bytes
    codec: str

    def encode(self, body: bytes) -> bytes:
        """Turn UTF-8 into the bytes of the document; what its encoding lacks becomes a character reference."""
        return self.mark + body.decode("utf-8").encode(self.codec, "xmlcharrefreplace")


def decode(data: bytes, name: str) -> tuple[bytes, Encoded]:
    """Give a document as UTF-8 without a byte-order mark, and how to turn it back; `name` begins the message."""
    encoded = _find(data, name)
    try:
        body = data[len(encoded.mark) :].decode(encoded.codec).encode("utf-8")
        same = encoded.encode(body) == data
    except UnicodeError as error:
        raise DataError(f"{name}: not {encoded.codec} text ({error.reason if hasattr(error, 'reason') else error}). "
                        "Write it again with the program that made it.") from error  # fmt: skip
    if not same:
        raise DataError(f"{name}: its {encoded.codec} text has more than one way to write it. Save it as UTF-8.")
    return body, encoded


def _find(data: bytes, name: str) -> Encoded:
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return Encoded(mark, codec)
    for start, codec in _STARTS:
        if data.startswith(start):
            return Encoded(b"", codec)
    declared = _DECLARED.match(data)
    if declared is None or (wanted := declared[1].decode("ascii").lower()) in ("utf-8", "utf8"):
        return Encoded(b"", "utf-8")
    if wanted not in _SINGLE_BYTE:
        raise DataError(f"{name}: its encoding {shown(wanted)} is not known. Save it as UTF-8.")
    return Encoded(b"", _SINGLE_BYTE[wanted])
