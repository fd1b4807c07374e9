"""Metadata inside an image: its XMP, and its IPTC keywords. Pixels are never decoded.

Files come from strangers, so every size is checked before it is believed, and whatever goes wrong is a `DataError`.
"""

import os
import zlib
from pathlib import Path
from typing import BinaryIO, NamedTuple

from PIL import Image, IptcImagePlugin

from tagloom.data.images import FORMATS
from tagloom.data.regular_file import open_regular
from tagloom.errors import DataError
from tagloom.wording import first_line
from tagloom.xmp.document import MAX_BYTES

_PNG_START, _PNG_KEYWORD = b"\x89PNG\r\n\x1a\n", b"XML:com.adobe.xmp\0"
_TIFF_XMP, _IPTC_KEYWORD = 700, (2, 25)
MAX_CHUNKS = 100_000
"""Of a PNG."""


class Embedded(NamedTuple):
    """What an image holds.

    Attributes:
        xmp: The bytes of its XMP; empty if it has none.
        iptc: Its IPTC keywords.
    """

    xmp: bytes = b""
    iptc: tuple[str, ...] = ()


def read_embedded(path: Path) -> Embedded:
    """Read the metadata of a JPEG, PNG, TIFF or WebP file; of another format there is none.

    Raises:
        DataError: If the file cannot be read or is damaged. The message begins with the path.
    """
    try:
        with open_regular(path) as file:
            if file.read(len(_PNG_START)) == _PNG_START:
                return Embedded(xmp=_png_xmp(file, os.fstat(file.fileno()).st_size).rstrip(b"\0"))
            file.seek(0)
            with Image.open(file, formats=FORMATS) as image:
                return Embedded(_image_xmp(image).rstrip(b"\0"), tuple(_image_iptc(image)))
    except DataError:
        raise
    except Exception as error:  # Pillow's plugins raise two dozen types on hostile files
        raise DataError(f"{path}: its metadata cannot be read ({first_line(error)}).") from error


def _image_xmp(image: Image.Image) -> bytes:
    tags = getattr(image, "tag_v2", {})
    found = tags.get(_TIFF_XMP) if image.format == "TIFF" else image.info.get("xmp")
    if isinstance(found, tuple):  # a TIFF may store it as single bytes
        found = bytes(found)
    return found if isinstance(found, bytes) else b""


def _image_iptc(image: Image.Image) -> list[str]:
    records = IptcImagePlugin.getiptcinfo(image) or {}  # type: ignore[arg-type]  # it takes any image
    found = records.get(_IPTC_KEYWORD, [])
    return [name for value in (found if isinstance(found, list) else [found]) if (name := _iptc_text(value))]


def _iptc_text(value: bytes) -> str:
    r"""Decode a keyword. Whatever a file declares, it is UTF-8 if it fits, as most programs write it, or else Latin-1.

    >>> _iptc_text("Köln".encode()), _iptc_text(b"K\xf6ln")
    ('Köln', 'Köln')
    """
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        text = value.decode("iso-8859-1")
    return text.strip("\0 \t\r\n")


def _png_xmp(file: BinaryIO, size: int) -> bytes:
    """Find the XMP of a PNG in its text chunks, which may also stand after the pixels."""
    for _ in range(MAX_CHUNKS):
        header = file.read(8)
        if len(header) < 8 or header[4:] == b"IEND":
            return b""
        length = int.from_bytes(header[:4], "big")
        if header[4:] == b"iTXt" and length <= MAX_BYTES:
            content = file.read(length)
            if content.startswith(_PNG_KEYWORD):
                return _text_of_chunk(content[len(_PNG_KEYWORD) :])
            file.seek(4, os.SEEK_CUR)
        else:
            file.seek(length + 4, os.SEEK_CUR)
        if file.tell() > size:
            return b""
    return b""


def _text_of_chunk(content: bytes) -> bytes:
    """Give the text of an iTXt chunk: after two numbers, a language and a translated keyword, each ended by a zero."""
    compressed, rest = content[:1] == b"\1", content[2:].split(b"\0", 2)
    text = rest[2] if len(rest) == 3 else b""
    if not compressed:
        return text
    unpacking = zlib.decompressobj()
    unpacked = unpacking.decompress(text, MAX_BYTES)
    if unpacking.unconsumed_tail:
        raise ValueError(f"its XMP unpacks to more than {MAX_BYTES:,} bytes")
    return unpacked
